package main

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// histogram counts microseconds in buckets of rising width (128 to each doubling: below 1 % error), without locks.
type histogram struct {
	buckets [64 * 128]atomic.Int64
	max     atomic.Int64
}

func bucketOf(micros int64) int {
	if micros < 128 {
		return int(max(micros, 0))
	}
	shift := bits.Len64(uint64(micros)) - 8
	return (shift+1)*128 + int(micros>>shift) - 128
}

func valueOf(bucket int) int64 {
	if bucket < 128 {
		return int64(bucket)
	}
	shift := bucket/128 - 1
	return int64(bucket%128+128) << shift
}

func (h *histogram) add(micros int64) {
	h.buckets[bucketOf(micros)].Add(1)
	for {
		old := h.max.Load()
		if micros <= old || h.max.CompareAndSwap(old, micros) {
			return
		}
	}
}

func (h *histogram) summary() map[string]float64 {
	var total int64
	for i := range h.buckets {
		total += h.buckets[i].Load()
	}
	result := map[string]float64{"count": float64(total), "max_ms": float64(h.max.Load()) / 1000}
	for name, quantile := range map[string]float64{"p50_ms": .5, "p90_ms": .9, "p99_ms": .99, "p999_ms": .999} {
		rank := int64(math.Ceil(quantile * float64(total)))
		var seen int64
		for i := range h.buckets {
			seen += h.buckets[i].Load()
			if seen >= rank && total > 0 {
				result[name] = float64(valueOf(i)) / 1000
				break
			}
		}
	}
	return result
}
