package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestSubscribersCountTellRepeatsAndBehave(t *testing.T) {
	in, err := receive(options{listen: "127.0.0.1:0", subscribers: 2, behave: "1=fail"})
	if err != nil {
		t.Fatal(err)
	}
	post := func(path, id string) int {
		request, err := http.NewRequest(http.MethodPost, "http://"+in.address+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header = http.Header{"Ce-Source": {source}, "Ce-Id": {id}, "Ce-Due": {"0"}}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	for _, sent := range []struct {
		path, id string
		status   int
	}{{"/s/0", "1", 202}, {"/s/0", "2", 202}, {"/s/0", "2", 202}, {"/s/1", "1", 503}, {"/s/2", "1", 404}, {"/", "1", 404}} {
		if status := post(sent.path, sent.id); status != sent.status {
			t.Fatalf("%s answered %d", sent.path, status)
		}
	}
	if in.received[0].Load() != 2 || in.received[1].Load() != 0 || in.duplicates.Load() != 1 {
		t.Fatalf("received %d and %d, repeated %d", in.received[0].Load(), in.received[1].Load(), in.duplicates.Load())
	}
	accepted := acceptance{words: make([]atomic.Uint32, 1)}
	accepted.add(1, 3)
	if missing := in.missing(&accepted, 1); missing != 1 {
		t.Fatalf("%d missing instead of event 3", missing)
	}
}
