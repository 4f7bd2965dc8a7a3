package load

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/bench/load/host"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// storageJob asks for one run that appends random bytes at each transition.
type storageJob struct {
	Dir   string `json:"dir"`
	Sizes Sizes  `json:"sizes"`
}

// storageResult is what the run takes on the disk once it is compacted.
type storageResult struct {
	Allocated int64 `json:"allocated"`
	Written   int64 `json:"written"`
}

func storageChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, func(raw json.RawMessage) (any, error) {
		var job storageJob
		if err := json.Unmarshal(raw, &job); err != nil {
			return nil, fmt.Errorf("job: %w", err)
		}
		return runStorage(ctx, job)
	})
}

func runStorage(ctx context.Context, job storageJob) (storageResult, error) {
	dir := filepath.Join(job.Dir, "data")
	l, err := openLocal(ctx, dir, localOptions{limits: machine.Limits{MaxRunArtifactBytes: job.Sizes.StoredRunBytes}})
	if err != nil {
		return storageResult{}, err
	}
	err = l.appendRandom(ctx, job.Sizes)
	if err := errors.Join(err, l.close()); err != nil {
		return storageResult{}, err
	}
	if err := compact(dir); err != nil {
		return storageResult{}, err
	}
	allocated, err := host.AllocatedBytes(dir)
	return storageResult{
		Allocated: allocated,
		Written:   int64(job.Sizes.StoredTransitions) * int64(job.Sizes.StoredBytes),
	}, err
}

// appendRandom writes what no compression makes smaller.
func (l *local) appendRandom(ctx context.Context, sizes Sizes) error {
	run, err := l.start(ctx, packLog)
	if err != nil {
		return err
	}
	value := make([]byte, sizes.StoredBytes)
	for n := range sizes.StoredTransitions {
		if _, err := rand.Read(value); err != nil {
			return err
		}
		if err := run.emit(ctx, eventID(0, n), value); err != nil {
			return err
		}
	}
	return nil
}

// compact merges all tables of a closed store into one level, as its own
// compaction does in time, and drops what was overwritten.
func compact(dir string) error {
	db, err := badger.OpenManaged(naiveOptions(dir))
	if err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	db.SetDiscardTs(math.MaxUint64)
	if err := errors.Join(db.Flatten(1), db.Close()); err != nil {
		return fmt.Errorf("compact: %w", err)
	}
	return nil
}

// storagePart measures one such run.
func (s *suite) storagePart(ctx context.Context) (Samples, error) {
	s.logf("a run that stores %d x %d B", s.sizes.StoredTransitions, s.sizes.StoredBytes)
	var result storageResult
	err := s.inDirectory(ctx, "storage", func(c *child, dir string) error {
		return c.call(ctx, storageJob{Dir: dir, Sizes: s.sizes}, &result)
	})
	if err != nil {
		return nil, err
	}
	return Samples{"storage_ratio": {float64(result.Allocated) / float64(result.Written)}}, nil
}
