package main

import (
	"bufio"
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
	behaviours  map[int]behaviour
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
	go in.accept(listener)
	return in, nil
}

// behaviour is what a bad subscriber does before it answers; it gives the status, and whether the event counts.
type behaviour func() (status int, counts bool)

// parseBehaviours reads "3=fail,4=slow:50ms,5=hang".
func parseBehaviours(text string) (map[int]behaviour, error) {
	result := map[int]behaviour{}
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
			result[number] = func() (int, bool) { return http.StatusServiceUnavailable, false }
		case "hang":
			result[number] = func() (int, bool) { time.Sleep(time.Hour); return http.StatusAccepted, false }
		case "slow":
			delay, err := time.ParseDuration(argument)
			if err != nil {
				return nil, fmt.Errorf("behaviour %q: %w", entry, err)
			}
			result[number] = func() (int, bool) { time.Sleep(delay); return http.StatusAccepted, true }
		default:
			return nil, fmt.Errorf("behaviour %q: fail, hang or slow:<time>", entry)
		}
	}
	return result, nil
}

// accept serves connections. The standard library reads the requests, but its server is left out: a subscriber that
// answers everything alike needs no goroutines beside the one that reads, and takes no time from what is measured.
func (in *inbox) accept(listener net.Listener) {
	for {
		socket, err := listener.Accept()
		if err != nil {
			return
		}
		go in.serve(socket)
	}
}

func (in *inbox) serve(socket net.Conn) {
	defer socket.Close()
	reader := bufio.NewReader(socket)
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, request.Body); err != nil {
			return
		}
		if _, err := socket.Write(answers[in.handle(request)]); err != nil || request.Close {
			return
		}
	}
}

// answers holds what is sent back for each status.
var answers = func() map[int][]byte {
	result := map[int][]byte{}
	for _, status := range []int{http.StatusAccepted, http.StatusNotFound, http.StatusServiceUnavailable} {
		result[status] = fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Length: 0\r\n\r\n", status, http.StatusText(status))
	}
	return result
}()

// handle notes the event and gives the status to answer with.
func (in *inbox) handle(r *http.Request) int {
	number, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/s/"))
	if err != nil || number < 0 || number >= len(in.seen) {
		return http.StatusNotFound
	}
	status, counts := http.StatusAccepted, true
	if behave := in.behaviours[number]; behave != nil {
		status, counts = behave()
	}
	if counts && r.Header.Get("Ce-Source") == source {
		in.note(number, r.Header.Get("Ce-Id"), r.Header.Get("Ce-Due"))
	}
	return status
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
