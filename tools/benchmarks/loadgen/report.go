package main

import (
	"fmt"
	"sync/atomic"
)

func report(o options, s *sender, in *inbox) map[string]any {
	answers := map[string]int64{}
	s.answers.Range(func(status, counter any) bool {
		answers[fmt.Sprint(status)] = counter.(*atomic.Int64).Load()
		return true
	})
	var accepted int64
	s.accepted.each(func(int64) { accepted++ })
	received := make([]int64, len(in.received))
	var delivered int64
	for i := range received {
		received[i] = in.received[i].Load()
		if i < o.fanout {
			delivered += received[i]
		}
	}
	whole := s.end.Sub(s.first).Seconds() + o.warmup.Seconds()
	if last := float64(in.last.Load())/1e9 - float64(s.first.UnixNano())/1e9 + o.warmup.Seconds(); last > 0 && delivered > 0 {
		whole = last
	}
	sending := o.duration.Seconds()
	if o.count > 0 {
		sending = min(sending, float64(s.answered.Load()-s.first.UnixNano())/1e9)
	}
	return map[string]any{
		"accepted":              accepted,
		"accepted_per_second":   float64(s.measured.Load()) / sending,
		"delivered":             delivered,
		"delivered_per_second":  float64(delivered) / whole,
		"received":              received,
		"lost":                  in.missing(&s.accepted, o.fanout),
		"duplicates":            in.duplicates.Load(),
		"answers":               answers,
		"answer_latency":        s.answer.summary(),
		"send_to_receive":       in.latency.summary(),
		"measured_seconds":      o.duration.Seconds(),
		"drained_after_seconds": max(whole-o.warmup.Seconds()-o.duration.Seconds(), 0),
	}
}
