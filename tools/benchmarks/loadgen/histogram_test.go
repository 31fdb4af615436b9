package main

import "testing"

func TestBucketsKeepValuesWithinOnePercent(t *testing.T) {
	for value := int64(0); value < 1<<40; value = value*11/10 + 1 {
		got := valueOf(bucketOf(value))
		if got > value || value-got > value/100+1 {
			t.Fatalf("%d became %d", value, got)
		}
	}
}

func TestPercentiles(t *testing.T) {
	var h histogram
	for i := int64(1); i <= 100; i++ {
		h.add(i * 1000)
	}
	s := h.summary()
	if s["p50_ms"] < 49 || s["p50_ms"] > 51 || s["max_ms"] != 100 {
		t.Fatalf("%v", s)
	}
}
