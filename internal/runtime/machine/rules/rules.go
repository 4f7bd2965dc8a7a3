package rules

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Step applies one input to a run. If s is nil, the run does not exist yet, and only [machine.Start]
// and [machine.Fork] are accepted.
//
// The error is always a *[machine.Error] and means that the input had no effect. A Result without a
// Batch also means that the input had no effect. In this case Result.Disposition tells whether the
// input was stale or a duplicate. If an input without effect has an id and the run has not ended, a
// [machine.NoChange] record stores the id.
//
// Step does not change g, s or anything that they refer to. The caller must not change anything that
// the Result refers to. g must satisfy [machine.CheckGraph].
func Step(g *machine.Graph, s *machine.State, in machine.Input) (machine.Result, error) {
	if start, ok := in.Command.(machine.Start); ok {
		return begin(g, s, in, start)
	}
	if fork, ok := in.Command.(machine.Fork); ok {
		return beginFork(g, s, in, fork)
	}
	if s == nil {
		return machine.Result{}, &machine.Error{Code: machine.CodeNotFound, Reason: "RUN_NOT_FOUND", Field: "run_id", Message: "no such run"}
	}
	if g.States[s.Current] == nil || g.Digest != s.Digest {
		return machine.Result{State: s}, &machine.Error{
			Code: machine.CodeInternal, Reason: "GRAPH_MISMATCH",
			Message: fmt.Sprintf("the run is in state %q of pack %s, the graph is of %s", s.Current, s.Digest, g.Digest),
		}
	}
	if s.Imported {
		return machine.Result{State: s}, Imported()
	}
	t, err := newTxn(g, s, in)
	if err != nil {
		return machine.Result{State: s}, err
	}
	if err := CheckExpected(s, in.Command); err != nil {
		return machine.Result{State: s}, err
	}
	disposition, err := t.dispatch()
	if err != nil {
		return machine.Result{State: s}, err
	}
	return t.result(disposition), nil
}

// dispatch calls the method for the input's command.
func (t *txn) dispatch() (machine.Disposition, error) {
	if err := t.checkSettled(); err != nil {
		return 0, err
	}
	switch c := t.in.Command.(type) {
	case machine.EmitEvent:
		return machine.Accepted, t.emit(&c)
	case machine.CompleteTurn:
		return machine.Accepted, t.complete(&c)
	case machine.SendInput:
		return machine.Accepted, t.sendInput(&c)
	case machine.SetArtifacts:
		return machine.Accepted, t.setArtifacts(&c)
	case machine.FailTurn:
		return t.fail(&c)
	case machine.SuspendTurn:
		return machine.Accepted, t.suspend(&c)
	case machine.RequestSteps:
		return machine.Accepted, t.request(&c)
	case machine.ResolveStep:
		return t.resolve(&c)
	case machine.RequestModel:
		return machine.Accepted, t.requestModel(&c)
	case machine.AnswerModel:
		return t.answerModel(&c)
	case machine.UpdateModelCall:
		return t.updateModelCall(&c)
	case machine.RaiseBudget:
		return machine.Accepted, t.raiseBudget(&c)
	case machine.LoseTurn:
		return t.loseTurn(&c), nil
	case machine.LoseStep:
		return t.loseStep(&c), nil
	case machine.FireTimer:
		return t.fire(&c), nil
	case machine.Pause:
		return machine.Accepted, t.pause(&c)
	case machine.Resume:
		return machine.Accepted, t.resume(&c)
	case machine.Steer:
		return machine.Accepted, t.steer(&c)
	case machine.Stop:
		return machine.Accepted, t.stop(&c)
	case machine.Cancel:
		return machine.Accepted, t.cancel()
	case machine.WriteOutput:
		return machine.Accepted, t.writeOutput(&c)
	case machine.NoteDelegation:
		return t.noteDelegation(&c)
	case machine.DecideStep:
		return t.decide(&c)
	}
	return 0, &machine.Error{Code: machine.CodeInternal, Reason: "UNKNOWN_COMMAND", Message: fmt.Sprintf("command %T", t.in.Command)}
}
