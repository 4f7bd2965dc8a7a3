package stat

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestBucketsAreContiguousAndNarrow(t *testing.T) {
	t.Parallel()
	for b := range 30 << subBits {
		low, next := bucketLow(b), bucketLow(b+1)
		if low >= next {
			t.Fatalf("bucket %d: low %d is not below the next one's %d", b, low, next)
		}
		if bucketOf(low) != b || bucketOf(next-1) != b {
			t.Fatalf("bucket %d does not hold its own bounds %d..%d", b, low, next-1)
		}
		if low > 1<<subBits && float64(next-low)/float64(low) > 0.004 {
			t.Fatalf("bucket %d is wider than 0.4 %%: %d..%d", b, low, next)
		}
	}
	if bucketOf(-5) != 0 {
		t.Error("a negative duration has no bucket")
	}
}

func TestQuantilesAgainstSortedList(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var combined Histogram
	parts := make([]Histogram, 3)
	var list []time.Duration
	for i := range 20_000 {
		d := time.Duration(math.Exp(rng.NormFloat64()+12)) + 1
		list = append(list, d)
		parts[i%3].Add(d)
	}
	for i := range parts {
		combined.Merge(&parts[i])
	}
	if combined.Count() != 20_000 {
		t.Fatalf("count %d", combined.Count())
	}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want, got := Quantile(list, q), combined.Quantile(q)
		if off := math.Abs(float64(got-want)) / float64(want); off > 0.005 {
			t.Errorf("q %v: %v, want %v (off by %.2f %%)", q, got, want, off*100)
		}
	}
}

func TestEmptyHistogram(t *testing.T) {
	t.Parallel()
	var h Histogram
	if h.Quantile(0.5) != 0 || Quantile(nil, 0.5) != 0 {
		t.Error("a quantile of nothing is not 0")
	}
}
