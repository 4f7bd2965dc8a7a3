package runtime

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// TurnView is an open turn with everything that its executor needs.
type TurnView = render.TurnView

// GetTurn reads the open turn of a run with the execution CALLER, or of a state with external
// orchestration. The caller gets a new token, which fences the older one.
//
// Errors: FAILED_PRECONDITION NO_OPEN_TURN or RUN_TERMINAL; PERMISSION_DENIED SCOPE_MISSING;
// PERMISSION_DENIED TURN_LEASED for a run with the execution WORKERS.
func (e *Engine) GetTurn(ctx context.Context, ref RunRef) (TurnView, error) {
	key, err := e.Find(ref)
	if err != nil {
		return TurnView{}, err
	}
	for {
		view, err := e.fetchTurn(ctx, key, ref.Principal)
		if err != nil || view.Run.Execution != machine.Caller {
			return view, err
		}
		if e.takeToken(key, &view, ref.Principal) {
			e.notifyChanged(key)
			return view, nil
		}
		// The run has changed since it was read.
		if err := ctx.Err(); err != nil {
			return TurnView{}, err
		}
	}
}

// fetchTurn checks the right of the principal to the open turn and renders the turn.
func (e *Engine) fetchTurn(ctx context.Context, key RunKey, p Principal) (TurnView, error) {
	s, err := e.Head(ctx, key)
	if err != nil {
		return TurnView{}, err
	}
	prog, err := e.programs.Of(ctx, key.Namespace, s)
	if err != nil {
		return TurnView{}, err
	}
	if s.Imported {
		return TurnView{}, rules.Imported()
	}
	if s.Status.Terminal() {
		return TurnView{}, render.NoTurn("RUN_TERMINAL", fmt.Sprintf("the run ended %s (%s)", s.Status, s.Reason), s)
	}
	_, err = policy.Decide(policy.Ask{
		Act: policy.Fetch, Principal: p, Orchestration: orchestration(prog.Graph, s), Leased: e.leased(key, s),
	})
	if err != nil {
		return TurnView{}, Denied(err)
	}
	if s.Turn == nil {
		return TurnView{}, render.NoTurn("NO_OPEN_TURN", "the run waits for an input, an event, an answer or a timer", s)
	}
	view, err := e.shown.Turn(ctx, key, prog, s)
	if c := approval.Changed(s, view.Steps); err == nil && c != nil {
		if _, err = e.ApplyInternal(ctx, key, c); err == nil {
			return e.fetchTurn(ctx, key, p)
		}
	}
	return view, err
}

// takeToken issues a token for the turn in view. It returns false if that turn has ended.
func (e *Engine) takeToken(key RunKey, view *TurnView, p Principal) bool {
	token := e.cfg.IDs.Token()
	view.Token = token
	return e.runTable.issue(key, Grant{
		Token: token, Turn: view.Seq, Attempt: view.Attempt, principal: p.Name(),
		Delivery: view.Run.Turn.Assigned.Delivery + 1,
	})
}
