package telemetry

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TimedStore is a store that measures the time of successful commits.
type TimedStore struct {
	runtime.Store
	Metrics *Metrics
}

// Commit implements [runtime.Store].
func (t TimedStore) Commit(ctx context.Context, b *machine.Batch) (machine.Committed, error) {
	began := time.Now()
	done, err := t.Store.Commit(ctx, b)
	if err == nil {
		t.Metrics.commit.Observe(time.Since(began).Seconds())
	}
	return done, err
}

// Synced records the duration of one synced transaction of the store, and the number of commits in it.
func (m *Metrics) Synced(took time.Duration, commits int) {
	m.sync.Observe(took.Seconds())
	m.group.Observe(float64(commits))
	m.committed.SetToCurrentTime()
}
