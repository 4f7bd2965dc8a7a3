package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// cascadePage is the number of child runs that are read at once.
const cascadePage = 256

// CancelRun ends a run as CANCELLED. With Cascade it also cancels all descendants of the run. If the
// run has already ended, the error is FAILED_PRECONDITION RUN_TERMINAL. A repeated cancellation with
// the same ID is no error. It cascades again, so that a caller can finish an interrupted cascade.
func (e *Engine) CancelRun(ctx context.Context, req ControlRequest) (Answer, error) {
	answer, err := e.Apply(ctx, Request{RunRef: req.RunRef, ID: req.ID, Command: machine.Cancel{Note: req.Note}})
	if err != nil || !req.Cascade {
		return answer, err
	}
	key, err := e.Find(req.RunRef)
	if err != nil {
		return answer, err
	}
	return answer, e.cancelChildren(ctx, key, req.Principal, req.Note, 0)
}

// cancelChildren cancels all descendants of a run. It finds them by the parent index.
func (e *Engine) cancelChildren(ctx context.Context, parent RunKey, by Principal, note string, depth int) error {
	if depth > machine.MaxDepth {
		return nil
	}
	filter := machine.RunFilter{Parent: parent.ID, Oldest: true}
	for after := ""; ; {
		children, next, err := e.store.ListRuns(ctx, parent.Namespace, filter, after, cascadePage)
		if err != nil {
			return fmt.Errorf("runtime: children of run %s: %w", parent.ID, err)
		}
		for _, child := range children {
			key := RunKey{Namespace: parent.Namespace, ID: child.RunID}
			if err := e.cancelChild(ctx, key, by, note); err != nil {
				return err
			}
			if err := e.cancelChildren(ctx, key, by, note, depth+1); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		after = next
	}
}

// cancelChild cancels one child. If the child has already ended, this is no error.
func (e *Engine) cancelChild(ctx context.Context, key RunKey, by Principal, note string) error {
	_, err := e.apply(ctx, &operation{key: key, principal: by, command: machine.Cancel{Note: note}, internal: true})
	var refusal *machine.Error
	if errors.As(err, &refusal) && refusal.Reason == "RUN_TERMINAL" {
		return nil
	}
	return err
}
