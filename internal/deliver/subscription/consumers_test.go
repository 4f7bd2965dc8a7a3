package subscription

import (
	"sync"
	"testing"
)

// TestOneStreamOfAConsumer: of streams that are opened at once all but one end.
func TestOneStreamOfAConsumer(t *testing.T) {
	t.Parallel()
	for range 200 {
		c, key := newConsumers(), consumerKey(0, "c")
		open := make([]*Reading, 8)
		var all sync.WaitGroup
		for i := range open {
			all.Go(func() { open[i] = c.enter(key) })
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
