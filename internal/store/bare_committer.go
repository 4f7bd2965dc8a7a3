package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/pawl-dev/pawl/internal/store/layout"
)

// BareCommitter gives benchmarks direct access to the committer of a new store. The store contains only
// the rows that the benchmark writes. [Store] itself has no method that writes rows without checks.
type BareCommitter struct{ store *Store }

// NewBareCommitter creates a store in a directory that must be empty or absent.
func NewBareCommitter(opts Options) (*BareCommitter, error) {
	files, err := os.ReadDir(opts.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("yardstick: %w", err)
	}
	if len(files) > 0 {
		return nil, fmt.Errorf("yardstick: %s is not empty", opts.Dir)
	}
	s, err := Open(opts)
	if err != nil {
		return nil, err
	}
	return &BareCommitter{store: s}, nil
}

// Commit stores ops unchanged and waits until they are synced. The committer may store them in one
// group with the ops of other callers.
func (y *BareCommitter) Commit(ctx context.Context, ops []layout.Op) error {
	return y.store.write(ctx, &Writes{ops: ops, entry: -1})
}

// Close closes the store.
func (y *BareCommitter) Close() error { return y.store.Close() }
