package runtime

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// StateOf returns the state of a run after the commit that contains the record seq. 0 means now. A past
// state is replayed from the last checkpoint before it, so the cost does not depend on the length of
// the journal. The caller must have checked that the principal may read the run.
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

// replayTail applies entries to a stored state of a run. It uses the program of the run.
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
