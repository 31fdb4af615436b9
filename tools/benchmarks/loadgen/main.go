// Command loadgen sends CloudEvents to a Broker or Channel, receives them again as their subscriber, and reports
// rates, latencies from send to receive, and what was lost or came twice, as one JSON object.
//
// In closed mode each connection sends its next event when the previous one was answered. In paced mode events are due
// at fixed times whether or not earlier ones were answered, and latency counts from when an event was due, so that a
// stall shows in full (no coordinated omission).
//
// An https address is spoken to by TLS, with HTTP/1.1 and connections that stay, as without. A token in the environment
// variable LOADGEN_TOKEN goes with every request as `Authorization: Bearer`; it is no flag, as processes are listed with theirs.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

const tokenVariable = "LOADGEN_TOKEN"

type options struct {
	url, host, listen, types, behave  string
	authority, token                  string
	rate                              float64
	connections, payload, batch       int
	fields                            int
	subscribers, fanout               int
	warmup, duration, settle, timeout time.Duration
	count                             int64
}

func main() {
	var o options
	flag.StringVar(&o.url, "url", "", "address of the Broker or Channel; empty: only receive")
	flag.StringVar(&o.host, "host", "", "Host header, where it differs from the address")
	flag.StringVar(&o.authority, "ca", "", "file with the authorities that an https address is believed by; empty: the system's")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:0", "address of the subscribers; the n-th is at /s/<n>")
	flag.StringVar(&o.types, "types", "bench", "event types, taken in turn, separated by commas")
	flag.StringVar(&o.behave, "behave", "", "subscribers on purpose bad, such as 3=fail,4=slow:50ms,5=hang")
	flag.Float64Var(&o.rate, "rate", 0, "events a second in paced mode; 0: closed loop")
	flag.IntVar(&o.connections, "connections", 64, "keep-alive connections")
	flag.IntVar(&o.payload, "payload", 1024, "bytes of data in an event")
	flag.IntVar(&o.fields, "fields", 1, "members that the data consists of; with more than 1 it says order.country, too")
	flag.IntVar(&o.batch, "batch", 1, "events in one request")
	flag.IntVar(&o.subscribers, "subscribers", 1, "number of subscribers")
	flag.IntVar(&o.fanout, "fanout", 1, "healthy subscribers that each event must reach (the first ones); 0: none")
	flag.DurationVar(&o.warmup, "warmup", 2*time.Second, "time before measuring begins")
	flag.DurationVar(&o.duration, "duration", 10*time.Second, "time for which is measured")
	flag.DurationVar(&o.settle, "settle", 30*time.Second, "longest wait for the last deliveries")
	flag.DurationVar(&o.timeout, "timeout", 20*time.Second, "longest wait for an answer")
	flag.Int64Var(&o.count, "count", 0, "stop after so many events, whatever the duration")
	flag.Parse()
	o.token = os.Getenv(tokenVariable)

	inbox, err := receive(o)
	if err != nil {
		fail(err)
	}
	fmt.Fprintf(os.Stderr, "subscribers at http://%s/s/<n>\n", inbox.address)
	if o.url == "" {
		select {}
	}
	sender, err := newSender(o)
	if err != nil {
		fail(err)
	}
	sender.run(inbox)
	inbox.settle(sender.highest(), o.fanout, o.settle)
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(report(o, sender, inbox)); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, strings.TrimSpace("loadgen: "+err.Error()))
	os.Exit(1)
}
