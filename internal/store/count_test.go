package store

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func TestCountRuns(t *testing.T) {
	t.Parallel()
	s := openTemp(t)
	ctx := context.Background()
	for i := range 5 {
		if _, err := s.Commit(ctx, startBatch(runID(i), "")); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		ns       uint32
		statuses []machine.Status
		want     int
	}{
		{0, []machine.Status{machine.Running}, 5},
		{0, []machine.Status{machine.Running, machine.Waiting, machine.Running}, 5},
		{0, []machine.Status{machine.Waiting}, 0},
		{0, nil, 0},
		{7, []machine.Status{machine.Running}, 0},
	}
	for _, tt := range tests {
		if got, err := s.CountRuns(ctx, tt.ns, tt.statuses); err != nil || got != tt.want {
			t.Errorf("CountRuns(%d, %v) = %d, %v; want %d", tt.ns, tt.statuses, got, err, tt.want)
		}
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if _, err := s.CountRuns(ended, 0, []machine.Status{machine.Running}); err == nil {
		t.Error("a count with an ended context succeeded")
	}
}
