package store

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CountRuns counts the runs of a namespace in any of the statuses, from the
// index alone: no head is read.
func (s *Store) CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error) {
	n := 0
	err := s.view(func(txn *badger.Txn) error {
		for i, status := range statuses {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !slices.Contains(statuses[:i], status) {
				n += countRows(txn, indexPrefix(nil, ns, "status", status.String()), math.MaxInt)
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("count runs: %w", err)
	}
	return n, nil
}
