package dispatch_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/dispatch"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// crowd is a matcher with that many free workers.
type crowd struct {
	m    *dispatch.Matcher
	got  *log
	work []machine.Work
}

func newCrowd(workers int) *crowd {
	c := &crowd{got: &log{}}
	c.m = dispatch.NewMatcher(c.got)
	for id := range uint64(workers) {
		// Each one's tools are its own; all take the same turns.
		c.m.AddWorker(id+1, machine.WorkOffer{Prompts: []string{"*"}, Tools: []string{fmt.Sprint("t", id)}, Turns: 4, Steps: 1}, 0, 0)
		c.m.Credit(id+1, 4, 1)
	}
	for i := range 64 {
		c.work = append(c.work, turn("p", fmt.Sprint("r", i)))
	}
	return c
}

// serve assigns one turn, ends it and lets its worker have another.
func (c *crowd) serve(i int) {
	c.m.Add(c.work[i%len(c.work)])
	by := c.got.workers[0]
	c.got.workers, c.got.work = c.got.workers[:0], c.got.work[:0]
	c.m.Done(by, machine.TurnWork)
	c.m.Credit(by, 1, 0)
}

// TestCrowd: what it costs to find a worker does not grow with how many there are.
// One that looked at each of 10 000 took some 500 times what it took with 10.
func TestCrowd(t *testing.T) {
	t.Parallel()
	few, many := newCrowd(10), newCrowd(10_000)
	best := func(c *crowd) time.Duration {
		least := time.Hour
		for range 20 {
			began := time.Now()
			for i := range 50 {
				c.serve(i)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	if a, b := best(few), best(many); b > 50*a {
		t.Fatalf("50 turns took %v among 10 workers, %v among 10 000", a, b)
	}
}

func BenchmarkCrowd(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			c := newCrowd(n)
			for i := 0; b.Loop(); i++ {
				c.serve(i)
			}
		})
	}
}
