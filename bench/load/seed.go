package load

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/bench/load/many"
)

// seedJob asks for runs that wait under a deadline.
type seedJob struct {
	// Dir is the data directory itself.
	Dir  string `json:"dir"`
	Runs int    `json:"runs"`
	// Behind sets the clock of the seeding engine back, so that deadlines of a
	// day are long past when the sidecar starts.
	Behind time.Duration `json:"behind"`
	// Varied runs differ in what lists ask for, and do not all wait.
	Varied bool `json:"varied"`
	// Place has the store instead of Dir.
	Place *many.Location `json:"place"`
}

type seedResult struct {
	Seeded int `json:"seeded"`
}

// seedWriters start runs at once.
const seedWriters = 256

// seedChild answers when all runs are on disk and then waits to be killed: it
// never closes its store.
func seedChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job seedJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("job: %w", err)
		}
		l, err := openLocal(ctx, job.Dir, localOptions{clockOffset: job.Behind, place: job.Place})
		if err != nil {
			return nil, err
		}
		return seedResult{Seeded: job.Runs}, l.seed(ctx, job)
	})
}

func (l *local) seed(ctx context.Context, job seedJob) error {
	group, ctx := errgroup.WithContext(ctx)
	var begun atomic.Int64
	for range seedWriters {
		group.Go(func() error {
			for n := begun.Add(1); n <= int64(job.Runs); n = begun.Add(1) {
				if err := l.seedOne(ctx, job, int(n)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (l *local) seedOne(ctx context.Context, job seedJob, n int) error {
	if job.Varied {
		return l.seedVaried(ctx, n)
	}
	_, err := l.start(ctx, packDeadline)
	return err
}
