package subscription

import (
	"sync"
	"testing"
	"time"
)

// standing is a clock that stands still.
type standing struct{ now time.Time }

func (c standing) Now() time.Time                       { return c.now }
func (c standing) Elapsed() time.Duration               { return 0 }
func (c standing) After(time.Duration) <-chan time.Time { return nil }

// TestOneStreamOfAConsumer: of streams that are opened at once all but one end.
func TestOneStreamOfAConsumer(t *testing.T) {
	t.Parallel()
	for range 200 {
		c, key := newConsumers(standing{}), consumerKey(0, "c")
		open := make([]*ConsumerWatch, 8)
		var all sync.WaitGroup
		for i := range open {
			all.Go(func() { open[i] = c.openWatch(key) })
		}
		all.Wait()
		left := 0
		for _, w := range open {
			select {
			case <-w.ended:
			default:
				left++
			}
		}
		if left != 1 {
			t.Fatalf("%d of %d streams are open", left, len(open))
		}
	}
}
