package store

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CountRuns counts the runs of a namespace that have one of the statuses. It does not read heads. It
// reads the status index only once in a process, see [runCounts].
func (s *Store) CountRuns(ctx context.Context, ns uint32, statuses []machine.Status) (int, error) {
	names := make([]string, 0, len(statuses))
	seen := make(map[machine.Status]bool, len(statuses))
	for _, status := range statuses {
		if !seen[status] {
			names = append(names, status.String())
		}
		seen[status] = true
	}
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("count runs: %w", err)
	}
	n, err := s.runCounts.Count(ctx, s.view, ns, names)
	if err != nil {
		return 0, fmt.Errorf("count runs: %w", err)
	}
	return n, nil
}
