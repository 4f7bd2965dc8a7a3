package stat

import (
	"math/bits"
	"slices"
	"time"
)

// subBits sets a histogram's resolution: 2^subBits buckets for each power of
// two, an error of at most 0.4 %.
const subBits = 8

// Histogram counts durations in buckets whose width grows with the duration.
// The zero value is empty and ready; it is not safe for concurrent use: one
// per client, merged at the end.
type Histogram struct {
	counts []uint32
	total  uint64
}

// bucketOf numbers the bucket of a duration; negative ones count as 0.
func bucketOf(d time.Duration) int {
	n := uint64(max(d, 0))
	if n < 1<<subBits {
		return int(n)
	}
	shift := bits.Len64(n) - 1 - subBits
	return (shift+1)<<subBits + int(n>>shift) - 1<<subBits
}

// bucketLow is the smallest duration of a bucket.
func bucketLow(bucket int) time.Duration {
	if bucket < 1<<subBits {
		return time.Duration(bucket)
	}
	shift := bucket>>subBits - 1
	mantissa := bucket&(1<<subBits-1) | 1<<subBits
	return time.Duration(mantissa) << shift
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	b := bucketOf(d)
	if b >= len(h.counts) {
		h.counts = append(h.counts, make([]uint32, b+1-len(h.counts))...)
	}
	h.counts[b]++
	h.total++
}

// Merge adds everything that other counted.
func (h *Histogram) Merge(other *Histogram) {
	if missing := len(other.counts) - len(h.counts); missing > 0 {
		h.counts = append(h.counts, make([]uint32, missing)...)
	}
	for b, n := range other.counts {
		h.counts[b] += n
	}
	h.total += other.total
}

// Count is how many durations were added.
func (h *Histogram) Count() uint64 { return h.total }

// Quantile is the duration that a share q (0..1) of those added do not pass,
// to the middle of its bucket; 0 of an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(q * float64(h.total-1))
	for b, n := range h.counts {
		if rank < uint64(n) {
			return (bucketLow(b) + bucketLow(b+1)) / 2
		}
		rank -= uint64(n)
	}
	return bucketLow(len(h.counts))
}

// Quantile is a quantile over a list of single durations, which it sorts.
func Quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[int(q*float64(len(list)-1))]
}
