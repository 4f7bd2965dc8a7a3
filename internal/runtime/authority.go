package runtime

import (
	"errors"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// acts maps each kind of command that a caller can send to the act that the policy decides about.
var acts = map[machine.CommandKind]policy.Act{
	machine.CmdEmitEvent:       policy.Emit,
	machine.CmdSetArtifacts:    policy.Write,
	machine.CmdCompleteTurn:    policy.Complete,
	machine.CmdFailTurn:        policy.Execute,
	machine.CmdSuspendTurn:     policy.Execute,
	machine.CmdRequestSteps:    policy.Execute,
	machine.CmdWriteOutput:     policy.Execute,
	machine.CmdRequestModel:    policy.Execute,
	machine.CmdAnswerModel:     policy.AnswerModel,
	machine.CmdUpdateModelCall: policy.Execute,
	machine.CmdResolveStep:     policy.Resolve,
	machine.CmdSendInput:       policy.Drive,
	machine.CmdPause:           policy.Drive,
	machine.CmdSteer:           policy.Drive,
	machine.CmdStop:            policy.Drive,
	machine.CmdResume:          policy.Drive,
	machine.CmdCancel:          policy.Drive,
	machine.CmdRaiseBudget:     policy.Fund,
	machine.CmdDecideStep:      policy.Approve,
}

// authorize performs the checks (5) and (6) of semantics §4. It reports whether the principal acts from
// outside.
//
// Two errors have precedence over missing rights. A run that has ended is reported first, except for
// the answer to a step (semantics §9). If the caller may see the run, a transition that the caller did
// not know of is also reported first. So if two callers compete for a transition, the second caller
// receives the transition that was made first, and not an error about its token.
func (t *execution) authorize() (outside bool, err error) {
	if t.op.internal || t.op.start != nil {
		return false, nil
	}
	act := acts[machine.KindOf(t.op.command)]
	if t.state.Status.Terminal() && act != policy.Resolve && act != policy.AnswerModel {
		return false, nil
	}
	if t.op.principal.MaySeeRuns() {
		if err := rules.CheckExpected(t.state, t.op.command); err != nil {
			return false, err
		}
	}
	verdict, err := t.decide(policy.Ask{
		Act: act, Orchestration: orchestration(t.program.Graph, t.state),
		Leased: t.e.leased(t.op.key, t.state),
	})
	return verdict.Outside, err
}

// decide returns the policy's verdict on the request, with the request's principal and token.
func (t *execution) decide(ask policy.Ask) (policy.Verdict, error) {
	ask.Principal = t.op.principal
	if t.op.holder != nil {
		t.authorizeByLease(&ask)
	} else {
		ask.Token, t.grant = t.tokenStatus(ask.Act)
		if ask.Leased && ask.Token == policy.TokenHeld {
			ask.Token = policy.TokenStale
		}
	}
	verdict, err := policy.Decide(ask)
	if err != nil {
		return verdict, t.deny(err)
	}
	return verdict, nil
}

// authorizeByLease makes the policy decide about a worker's request only by the leases of that worker.
func (t *execution) authorizeByLease(ask *policy.Ask) {
	t.grant, ask.HoldsLease = t.op.holder.Holds(t.op.key.ID, t.op.token, ask.Act, t.op.command)
	ask.Leased = false
	if !ask.HoldsLease && t.op.token != "" && ask.Act != policy.Resolve {
		ask.Token = policy.TokenStale
	}
}

// deny adds to a policy error the record at which the current state was entered, so that a caller that lost a
// race knows which record won.
func (t *execution) deny(err error) error {
	err = Denied(err)
	var refusal *machine.Error
	if t.state != nil && errors.As(err, &refusal) {
		refusal.Seq = t.state.VisitSeq
	}
	return err
}

// tokenStatus checks the turn token of the request. The token of a turn may answer a step even after
// that turn is over. In that case the machine reports that the answer came too late.
func (t *execution) tokenStatus(act policy.Act) (policy.Token, Grant) {
	var open *machine.Turn
	if t.state != nil {
		open = t.state.Turn
	}
	status, tok := t.e.runTable.tokenStatus(t.op.key, open, t.op.token)
	if status == policy.TokenStale && (act == policy.Resolve || act == policy.AnswerModel) {
		if past, ok := t.e.runTable.known(t.op.key, t.op.token); ok {
			return policy.TokenHeld, past
		}
		tok = t.e.runTable.fenced(t.op.key, t.op.token)
	}
	return status, tok
}

func orchestration(g *machine.Graph, s *machine.State) policy.Orchestration {
	node := g.States[s.Current]
	if node == nil {
		return policy.Internal
	}
	switch node.Orchestration {
	case machine.External:
		return policy.External
	case machine.Hybrid:
		return policy.Hybrid
	}
	return policy.Internal
}

// turnAfter returns the open turn after a commit. If the answer must contain a token, turnAfter issues
// the token for the principal that opened the turn. Only runs with the execution CALLER have such
// tokens.
func (t *execution) turnAfter(before *machine.State) *TurnRef {
	turn := t.state.Turn
	opened := turn != nil && (before == nil || before.Turn == nil ||
		before.Turn.Seq != turn.Seq || before.Turn.Attempt != turn.Attempt)
	switch {
	case opened && t.givesToken():
		t.e.runTable.issue(t.op.key, Grant{
			Token: t.e.cfg.IDs.Token(), Turn: turn.Seq, Attempt: turn.Attempt,
			principal: t.op.principal.Name(), Delivery: 1,
		})
	case before != nil && before.Turn != nil && (opened || turn == nil):
		t.e.runTable.retire(t.op.key, turn)
	}
	return t.openTurn(t.program.Graph, t.state)
}

func (t *execution) givesToken() bool {
	return !t.op.internal && t.op.holder == nil && t.state.Execution == machine.Caller &&
		mayHoldTurn(t.op.principal, orchestration(t.program.Graph, t.state))
}

// mayHoldTurn reports whether the principal may execute turns of a state with this orchestration. If not, a token is of no use to the
// principal.
func mayHoldTurn(p Principal, o policy.Orchestration) bool {
	if o == policy.External {
		return p.Scopes.Has(policy.EventsExternal)
	}
	return p.Scopes.Has(policy.RunsWrite)
}

// openTurn returns the identity of a state's open turn. If the principal holds the turn, the result
// also contains its token.
func (t *execution) openTurn(g *machine.Graph, s *machine.State) *TurnRef {
	if s.Turn == nil {
		return nil
	}
	ref := render.Ref(g, s)
	if !t.op.internal {
		ref.Token = t.e.runTable.current(RunKey{Namespace: t.op.key.Namespace, ID: s.RunID}, s.Turn, t.op.principal.Name())
	}
	return ref
}
