package runtime

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// StateOf returns a run's state as it was after the commit that holds record seq; 0 =
// now. A past state is a replay from the store's last checkpoint before it, so it costs
// the same however long the journal is. The caller has been found to may read the run.
func (e *Engine) StateOf(ctx context.Context, key RunKey, seq uint64) (*machine.State, error) {
	head, err := e.Head(ctx, key)
	if err != nil || seq == 0 {
		return head, err
	}
	if err := head.CheckNotErased(); err != nil || seq == head.Seq {
		return head, err
	}
	prog, err := e.programs.Of(ctx, key.Namespace, head)
	if err != nil {
		return nil, err
	}
	return e.past.StateAt(ctx, key, head, prog.Graph, seq)
}

// replayTail goes on from a stored state of a run, by the run's own program.
func (e *Engine) replayTail(ctx context.Context, head *machine.State, tail []machine.Entry) (*machine.State, error) {
	prog, err := e.programs.Of(ctx, head.Namespace, head)
	if err != nil {
		return nil, err
	}
	s, err := history.Follow(prog.Graph, head, tail)
	if err != nil {
		return nil, fmt.Errorf("runtime: replay run %s: %w", head.RunID, err)
	}
	return s, nil
}
