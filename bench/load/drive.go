package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/bench/load/stat"
)

// client does one thing again and again; it is used by one goroutine.
type client interface {
	// once does it one time.
	once(ctx context.Context) error
	// started is how many runs it began.
	started() uint64
}

// phase is where a drive stands.
type phase = int32

const (
	warming phase = iota
	measuring
	over
)

// drive runs the clients side by side. Only what was asked and answered while
// measuring counts; every client finishes the call that it is in. With a window
// of 0 a message on more ends the measurement. A window in which nothing was
// answered, on a machine that is busy with other things, goes on to the first answer.
func drive(ctx context.Context, clients []client, warm, window time.Duration, more <-chan []byte) (loadResult, error) {
	group, ctx := errgroup.WithContext(ctx)
	histograms := make([]stat.Histogram, len(clients))
	var now atomic.Int32
	var total atomic.Uint64
	counted := make(chan []byte)
	first := sync.OnceFunc(func() { close(counted) })
	for i, c := range clients {
		group.Go(func() error {
			n, err := driveOne(ctx, c, &now, &histograms[i], first)
			total.Add(n)
			return err
		})
	}
	pause(ctx, warm, nil)
	begin := time.Now()
	now.Store(measuring)
	pause(ctx, window, more)
	if window > 0 {
		pause(ctx, longestWindow, counted)
	}
	now.Store(over)
	elapsed := time.Since(begin)
	if err := group.Wait(); err != nil {
		return loadResult{}, err
	}
	return summarise(clients, histograms, elapsed, total.Load()), nil
}

// longestWindow bounds the wait for a first answer.
const longestWindow = time.Minute

// pause waits for d (0 = without end) or a message.
func pause(ctx context.Context, d time.Duration, more <-chan []byte) {
	var timeout <-chan time.Time
	if d > 0 || more == nil {
		timeout = time.After(d)
	}
	select {
	case <-timeout:
	case <-more:
	case <-ctx.Done():
	}
}

// driveOne calls c until the end and returns the number of all its calls. It calls counted for each
// call that counts.
func driveOne(ctx context.Context, c client, now *atomic.Int32, h *stat.Histogram, counted func()) (uint64, error) {
	var calls uint64
	for current := now.Load(); current != over; current = now.Load() {
		start := time.Now()
		if err := c.once(ctx); err != nil {
			return calls, err
		}
		calls++
		if current == measuring && now.Load() == measuring {
			h.Add(time.Since(start))
			counted()
		}
	}
	return calls, nil
}

func summarise(clients []client, histograms []stat.Histogram, elapsed time.Duration, total uint64) loadResult {
	result := loadResult{Total: total}
	var all stat.Histogram
	for i, c := range clients {
		all.Merge(&histograms[i])
		result.Started += c.started()
	}
	result.Count = all.Count()
	result.PerSec = float64(all.Count()) / elapsed.Seconds()
	result.P50us, result.P99us = micros(all.Quantile(0.5)), micros(all.Quantile(0.99))
	return result
}
