package telemetry

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Timed is a store that measures the time of commits.
type Timed struct {
	runtime.Store
	Metrics *Metrics
}

// Commit implements [runtime.Store].
func (t Timed) Commit(ctx context.Context, b *machine.Batch) (machine.Committed, error) {
	began := time.Now()
	done, err := t.Store.Commit(ctx, b)
	if err == nil {
		t.Metrics.commit.Observe(time.Since(began).Seconds())
	}
	return done, err
}

// Synced records one synced transaction of the store with its number of commits.
func (m *Metrics) Synced(took time.Duration, commits int) {
	m.sync.Observe(took.Seconds())
	m.group.Observe(float64(commits))
}
