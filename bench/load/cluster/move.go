package cluster

import (
	"context"
	"crypto/rand"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// callersAt is how many callers are at each of the other nodes while the owner ends.
const callersAt = 4

// settleAnswers is how many answers all callers together have before the owner ends, and after.
const settleAnswers = 20 * callersAt

// Move is what callers at the other nodes notice of the owner's end.
type Move struct {
	// Standstill is the longest time between two answers that a caller had.
	Standstill time.Duration
	// Committed is from the signal to the first answer to a call that came after it; Started the
	// same of the first run that was to be started.
	Committed, Started time.Duration
	// Balanced is from when the process that came instead was ready until all shared evenly again.
	Balanced time.Duration
}

// Move ends the owner of default while callers at the others make one change after the other, and
// starts another process instead, which has its share when Move returns. None of their calls may fail.
func (c *Cluster) Move(ctx context.Context, signal syscall.Signal) (Move, error) {
	owner, others, err := c.splitByOwner(ctx)
	if err != nil {
		return Move{}, err
	}
	seen, err := c.measureMove(ctx, owner, others, signal)
	if err != nil {
		return Move{}, err
	}
	if err := c.begin(ctx, owner); err != nil {
		return seen, err
	}
	ready := time.Now()
	_, err = c.awaitEvenShares(ctx)
	seen.Balanced = time.Since(ready)
	return seen, err
}

func (c *Cluster) measureMove(ctx context.Context, owner *node, others []*node, signal syscall.Signal) (Move, error) {
	group, ctx := errgroup.WithContext(ctx)
	w := newWatch()
	for _, n := range others {
		for range callersAt {
			one, err := c.caller(ctx, n)
			if err != nil {
				w.end()
				return Move{}, errorOf(group.Wait(), err)
			}
			group.Go(func() error { return w.follow(ctx, one) })
		}
	}
	err := w.awaitAnswers(ctx, settleAnswers)
	if err == nil {
		w.signal(time.Now())
		group.Go(func() error { return w.startRun(ctx, others[0]) })
		owner.end(signal)
		err = w.awaitAnswers(ctx, settleAnswers)
	}
	w.end()
	err = errorOf(group.Wait(), err)
	return w.move, err
}

// errorOf is the first cause.
func errorOf(cause, err error) error {
	if cause != nil {
		return cause
	}
	return err
}

// watch takes down the answers of callers.
type watch struct {
	mu    sync.Mutex
	ended bool
	// from is when the owner was ended; zero: not yet.
	from time.Time
	move Move
	// answersLeft are the answers until reached is closed.
	answersLeft int
	done        chan struct{}
}

func newWatch() *watch { return &watch{done: make(chan struct{})} }

// follow has one change made after the other until the end.
func (w *watch) follow(ctx context.Context, one *caller) error {
	for last := time.Now(); ; {
		began := time.Now()
		if err := one.emit(ctx); err != nil {
			return err
		}
		now := time.Now()
		if w.answered(last, began, now) {
			return nil
		}
		last = now
	}
}

// startRun begins a run, like a caller that comes after the signal.
func (w *watch) startRun(ctx context.Context, at *node) error {
	_, err := pawlv1.NewRunServiceClient(at.conn).StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: pingID, Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "bench-start-" + rand.Text(),
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.move.Started = time.Since(w.from)
	return err
}

// answered takes down an answer that a caller had now, to what it asked when it began; the one
// before came at last. It says whether that was enough.
func (w *watch) answered(last, began, now time.Time) (enough bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.from.IsZero() {
		w.move.Standstill = max(w.move.Standstill, now.Sub(last))
		if w.move.Committed == 0 && !began.Before(w.from) {
			w.move.Committed = now.Sub(w.from)
		}
	}
	if w.answersLeft--; w.answersLeft == 0 {
		close(w.done)
	}
	return w.ended
}

// awaitAnswers waits for more answers.
func (w *watch) awaitAnswers(ctx context.Context, answers int) error {
	w.mu.Lock()
	w.answersLeft, w.done = answers, make(chan struct{})
	reached := w.done
	w.mu.Unlock()
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *watch) signal(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.from = at
}

func (w *watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}
