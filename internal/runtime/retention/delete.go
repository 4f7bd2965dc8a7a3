package retention

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These are the reasons of refusals while a parent run is active, or while an agent has not received
// its cancellation.
const (
	runNeeded   = "RUN_NEEDED"
	agentUntold = "AGENT_UNTOLD"
)

// DeleteRun permanently deletes a run that has ended. If the same run is deleted again, the answer is a
// duplicate.
//
// Errors: PERMISSION_DENIED without the scope runs:delete; FAILED_PRECONDITION RUN_NOT_ENDED;
// RUN_NEEDED while the run that delegated to it is active; AGENT_UNTOLD while an agent that it
// delegated to has not received its cancellation.
func (r *Service) DeleteRun(ctx context.Context, ref runtime.RunRef) (d machine.Deleted, duplicate bool, err error) {
	key, err := r.cfg.Engine.Find(ref)
	if err == nil {
		err = runtime.Denied(policy.Require(ref.Principal, policy.RunsDelete))
	}
	if err == nil && r.cfg.Store == nil {
		err = &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "DELETION_OFF", Message: "this sidecar's store deletes nothing",
		}
	}
	if err != nil {
		return d, false, err
	}
	return r.delete(ctx, key, machine.Deleted{By: ref.Principal.Name()})
}

// delete deletes a run. asked names the principal or the rule that requested the deletion.
func (r *Service) delete(ctx context.Context, key runtime.RunKey, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error) {
	head, err := r.cfg.Engine.Head(ctx, key)
	if err != nil && !machine.IsDeleted(err) {
		return d, false, err
	}
	if head != nil {
		if err := errors.Join(r.unneeded(ctx, key, head), r.checkAgentsNotified(ctx, key, head)); err != nil {
			return d, false, err
		}
	}
	asked.At = r.cfg.Clock.Now().UnixNano()
	err = r.cfg.Engine.Inside(func() error {
		return r.cfg.Engine.Evict(key, func() error {
			// A deletion that has begun is completed, even if the caller has disconnected.
			d, duplicate, err = r.cfg.Store.DeleteRun(context.WithoutCancel(ctx), key.Namespace, key.ID, asked)
			if err == nil && r.cfg.Deleted != nil {
				r.cfg.Deleted(key)
			}
			return err
		})
	})
	return d, duplicate, err
}

// unneeded returns an error if the run has an active parent, because the parent may not have received
// the result of the run yet.
func (r *Service) unneeded(ctx context.Context, key runtime.RunKey, st *machine.State) error {
	if st.Parent == nil || st.Parent.Origin != "" || st.Imported {
		return nil
	}
	parent, err := r.cfg.Engine.Head(ctx, runtime.RunKey{Namespace: key.Namespace, ID: st.Parent.RunID})
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Code == machine.CodeNotFound {
		// A parent in another store requests nothing here.
		return nil
	}
	if err != nil || parent.Status.Terminal() || parent.Imported {
		return err
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: runNeeded, Field: "run_id", Seq: st.Seq,
		Message: fmt.Sprintf("the run %s, which delegated to it, has not ended", parent.RunID),
	}
}

// checkAgentsNotified returns an error if an agent still works for the ended run and has not received
// the cancellation. If an agent is unreachable, the delivery of the cancellation is abandoned after
// some minutes.
func (r *Service) checkAgentsNotified(ctx context.Context, key runtime.RunKey, st *machine.State) error {
	if !r.cfg.NotifiesAgents || !st.Status.Terminal() || st.Imported {
		return nil
	}
	untold, err := r.cfg.Store.Untold(ctx, key.Namespace, key.ID)
	if err != nil || !untold {
		return err
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: agentUntold, Field: "run_id", Seq: st.Seq,
		Message: "an agent that it delegated to is not told yet that it is over: try again in some minutes",
	}
}

// EraseRun permanently erases the values of a run that has ended. If the same run is erased again, the
// answer is a duplicate that describes the first erasure.
//
// Errors: PERMISSION_DENIED without the scope runs:erase; INVALID_ARGUMENT REASON_REQUIRED;
// FAILED_PRECONDITION RUN_NOT_ENDED, RUN_NOT_ERASABLE, ERASURE_OFF; RUN_NEEDED while the run that
// delegated to it is active.
func (r *Service) EraseRun(ctx context.Context, ref runtime.RunRef, reason string) (st *machine.State, duplicate bool, err error) {
	key, err := r.cfg.Engine.Find(ref)
	if err == nil {
		err = runtime.Denied(policy.Require(ref.Principal, policy.RunsErase))
	}
	eraser, _ := r.cfg.Store.(Eraser)
	switch {
	case err != nil:
		return nil, false, err
	case eraser == nil:
		return nil, false, &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "ERASURE_OFF", Message: "this sidecar's store erases nothing",
		}
	case reason == "":
		return nil, false, &machine.Error{Code: machine.CodeInvalidArgument, Reason: "REASON_REQUIRED", Field: "reason", Message: "say why"}
	}
	head, err := r.cfg.Engine.Head(ctx, key)
	if err == nil && head.Erased == nil {
		err = r.unneeded(ctx, key, head)
	}
	if err == nil && head.Erased == nil {
		// The agents must be notified before the erasure, because their addresses are erased too.
		err = r.checkAgentsNotified(ctx, key, head)
	}
	if err != nil {
		return nil, false, err
	}
	asked := machine.Erased{At: r.cfg.Clock.Now().UnixNano(), By: ref.Principal.Name(), Why: reason}
	err = r.cfg.Engine.Inside(func() error {
		return r.cfg.Engine.Evict(key, func() error {
			// An erasure that has begun is completed, even if the caller has disconnected.
			st, duplicate, err = eraser.EraseRun(context.WithoutCancel(ctx), key.Namespace, key.ID, asked)
			if r.cfg.Deleted != nil && MayHaveErased(err) {
				// This is also called after a failed erasure.
				r.cfg.Deleted(key)
			}
			return err
		})
	})
	return st, duplicate, err
}

// MayHaveErased reports whether the erasure that returned this error may have begun. If it may have
// begun, cached data of the run must be dropped. An erasure that was refused has not begun.
func MayHaveErased(err error) bool {
	refusal, refused := errors.AsType[*machine.Error](err)
	if !refused {
		return !errors.Is(err, machine.ErrNoRun)
	}
	switch refusal.Code {
	case machine.CodeNotFound, machine.CodeFailedPrecondition, machine.CodeInvalidArgument, machine.CodePermissionDenied:
		return false
	}
	return true
}
