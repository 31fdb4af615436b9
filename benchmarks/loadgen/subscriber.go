package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const maxEvents = 16 << 20

// inbox is the subscribers: it knows which event reached which of them, how often and how late.
type inbox struct {
	address     string
	seen        [][]atomic.Uint32 // per subscriber, a bit for each event id
	received    []atomic.Int64
	duplicates  atomic.Int64
	measureFrom atomic.Int64 // ids below this one are warm-up
	latency     histogram
	last        atomic.Int64 // when the newest delivery came, in Unix nanoseconds
	behaviours  map[int]func(http.ResponseWriter) bool
}

func receive(o options) (*inbox, error) {
	in := &inbox{seen: make([][]atomic.Uint32, o.subscribers), received: make([]atomic.Int64, o.subscribers)}
	for i := range in.seen {
		in.seen[i] = make([]atomic.Uint32, maxEvents/32)
	}
	behaviours, err := parseBehaviours(o.behave)
	if err != nil {
		return nil, err
	}
	in.behaviours = behaviours
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return nil, err
	}
	in.address = listener.Addr().String()
	go func() { _ = http.Serve(listener, in) }()
	return in, nil
}

// parseBehaviours reads "3=fail,4=slow:50ms,5=hang".
func parseBehaviours(text string) (map[int]func(http.ResponseWriter) bool, error) {
	result := map[int]func(http.ResponseWriter) bool{}
	for _, entry := range strings.Split(text, ",") {
		if entry == "" {
			continue
		}
		who, what, _ := strings.Cut(entry, "=")
		number, err := strconv.Atoi(who)
		if err != nil {
			return nil, fmt.Errorf("behaviour %q: the subscriber is a number", entry)
		}
		kind, argument, _ := strings.Cut(what, ":")
		switch kind {
		case "fail":
			result[number] = func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusServiceUnavailable); return false }
		case "hang":
			result[number] = func(http.ResponseWriter) bool { time.Sleep(time.Hour); return false }
		case "slow":
			delay, err := time.ParseDuration(argument)
			if err != nil {
				return nil, fmt.Errorf("behaviour %q: %w", entry, err)
			}
			result[number] = func(http.ResponseWriter) bool { time.Sleep(delay); return true }
		default:
			return nil, fmt.Errorf("behaviour %q: fail, hang or slow:<time>", entry)
		}
	}
	return result, nil
}

func (in *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	number, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/s/"))
	if err != nil || number < 0 || number >= len(in.seen) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if behave := in.behaviours[number]; behave != nil && !behave(w) {
		return
	}
	if r.Header.Get("Ce-Source") == source {
		in.note(number, r.Header.Get("Ce-Id"), r.Header.Get("Ce-Due"))
	}
	w.WriteHeader(http.StatusAccepted)
}

func (in *inbox) note(number int, id, due string) {
	now := time.Now().UnixNano()
	event, err := strconv.ParseInt(id, 10, 64)
	if err != nil || event < 0 || event >= maxEvents {
		return
	}
	word, bit := &in.seen[number][event/32], uint32(1)<<(event%32)
	if word.Or(bit)&bit != 0 {
		in.duplicates.Add(1)
		return
	}
	in.received[number].Add(1)
	in.last.Store(now)
	if dueAt, err := strconv.ParseInt(due, 10, 64); err == nil && event >= in.measureFrom.Load() {
		in.latency.add((now - dueAt) / 1000)
	}
}

// settle waits until each of the first `fanout` subscribers has as many events as were accepted, or time is up.
func (in *inbox) settle(accepted *acceptance, fanout int, limit time.Duration) {
	deadline := time.Now().Add(limit)
	for time.Now().Before(deadline) {
		if in.counted(fanout) >= accepted.count.Load()*int64(fanout) && in.missing(accepted, fanout) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// counted is a cheap look at how far delivery is; missing is the exact one.
func (in *inbox) counted(fanout int) int64 {
	var total int64
	for number := 0; number < fanout && number < len(in.received); number++ {
		total += in.received[number].Load()
	}
	return total
}

// missing counts accepted events that one of the first `fanout` subscribers has not received.
func (in *inbox) missing(accepted *acceptance, fanout int) int64 {
	var missing int64
	for number := 0; number < fanout && number < len(in.seen); number++ {
		accepted.each(func(event int64) {
			if in.seen[number][event/32].Load()&(uint32(1)<<(event%32)) == 0 {
				missing++
			}
		})
	}
	return missing
}
