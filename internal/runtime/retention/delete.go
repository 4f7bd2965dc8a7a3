package retention

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// These are the reasons of the errors for a run that is kept, because its parent run is active, or
// because an agent has not received the cancellation of its work yet.
const (
	runNeeded   = "RUN_NEEDED"
	agentUntold = "AGENT_UNTOLD"
)

// DeleteRun permanently deletes a run that has ended. duplicate reports whether the run was already
// deleted.
//
// Errors: PERMISSION_DENIED without the scope runs:delete; FAILED_PRECONDITION RUN_NOT_ENDED;
// RUN_NEEDED while the run that delegated to it is active; AGENT_UNTOLD while an agent that it
// delegated to has not received its cancellation; DELETION_OFF if the store deletes nothing.
func (r *Service) DeleteRun(ctx context.Context, ref runtime.RunRef) (d machine.Deleted, duplicate bool, err error) {
	key, err := r.cfg.Engine.Find(ref)
	if err == nil {
		err = runtime.PolicyError(policy.Require(ref.Principal, policy.RunsDelete))
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

// delete deletes a run. asked contains the principal, and the rule if there is one, that requested the
// deletion.
func (r *Service) delete(ctx context.Context, key runtime.RunKey, asked machine.Deleted) (d machine.Deleted, duplicate bool, err error) {
	head, err := r.cfg.Engine.Head(ctx, key)
	if err != nil && !machine.IsDeleted(err) {
		return d, false, err
	}
	if head != nil {
		if err := errors.Join(r.checkUnneeded(ctx, key, head), r.checkAgentsNotified(ctx, key, head)); err != nil {
			return d, false, err
		}
	}
	asked.At = r.cfg.Clock.Now().UnixNano()
	err = r.cfg.Engine.DoInFlight(func() error {
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

// checkUnneeded returns an error if the parent of the run is active, because the parent may not have
// received the result of the run yet.
func (r *Service) checkUnneeded(ctx context.Context, key runtime.RunKey, st *machine.State) error {
	if st.Parent == nil || st.Parent.Origin != "" || st.Imported {
		return nil
	}
	parent, err := r.cfg.Engine.Head(ctx, runtime.RunKey{Namespace: key.Namespace, ID: st.Parent.RunID})
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Code == machine.CodeNotFound {
		// The parent is not in this store, so it does not need the run any more.
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
// the cancellation. If the agent is unreachable, the sidecar gives up sending the cancellation after
// some minutes, and the run can be deleted.
func (r *Service) checkAgentsNotified(ctx context.Context, key runtime.RunKey, st *machine.State) error {
	if !r.cfg.NotifiesAgents || !st.Status.Terminal() || st.Imported {
		return nil
	}
	untold, err := r.cfg.Store.HasUnconfirmedCancel(ctx, key.Namespace, key.ID)
	if err != nil || !untold {
		return err
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: agentUntold, Field: "run_id", Seq: st.Seq,
		Message: "an agent that the run delegated to has not been notified of its end yet: try again in some minutes",
	}
}

// EraseRun permanently erases the values of a run that has ended. If they were already erased,
// duplicate is true, and the state describes the first erasure.
//
// Errors: PERMISSION_DENIED without the scope runs:erase; INVALID_ARGUMENT REASON_REQUIRED;
// FAILED_PRECONDITION RUN_NOT_ENDED, RUN_NOT_ERASABLE, ERASURE_OFF; RUN_NEEDED while the run that
// delegated to it is active; AGENT_UNTOLD while an agent that it delegated to has not received its
// cancellation.
func (r *Service) EraseRun(ctx context.Context, ref runtime.RunRef, reason string) (st *machine.State, duplicate bool, err error) {
	key, err := r.cfg.Engine.Find(ref)
	if err == nil {
		err = runtime.PolicyError(policy.Require(ref.Principal, policy.RunsErase))
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
		err = r.checkUnneeded(ctx, key, head)
	}
	if err == nil && head.Erased == nil {
		// Agents must receive their cancellations before the erasure, because the erasure also erases
		// their addresses.
		err = r.checkAgentsNotified(ctx, key, head)
	}
	if err != nil {
		return nil, false, err
	}
	asked := machine.Erased{At: r.cfg.Clock.Now().UnixNano(), By: ref.Principal.Name(), Why: reason}
	err = r.cfg.Engine.DoInFlight(func() error {
		return r.cfg.Engine.Evict(key, func() error {
			// An erasure that has begun is completed, even if the caller has disconnected.
			st, duplicate, err = eraser.EraseRun(context.WithoutCancel(ctx), key.Namespace, key.ID, asked)
			if r.cfg.Deleted != nil && MayHaveErased(err) {
				// Caches must be emptied after a failed erasure, too, because it may have begun.
				r.cfg.Deleted(key)
			}
			return err
		})
	})
	return st, duplicate, err
}

// MayHaveErased reports whether the erasure that returned err may have begun, so that cached data of
// the run must be dropped. An erasure that was refused has not begun.
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
