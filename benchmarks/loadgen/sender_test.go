package main

import (
	"encoding/json"
	"testing"
)

func TestDataIsJsonOfTheSizeAskedFor(t *testing.T) {
	for _, fields := range []int{1, 2, 20} {
		data := dataOf(1024, fields)
		var read map[string]any
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatalf("%d fields: %v", fields, err)
		}
		if len(data) < 1000 || len(data) > 1024 {
			t.Errorf("%d fields: %d bytes", fields, len(data))
		}
		if _, asked := read["order"]; asked != (fields > 1) {
			t.Errorf("%d fields: order is there: %v", fields, asked)
		}
	}
}
