package machine

import "fmt"

// Step applies one input to a run. A nil state is a run that does not exist
// yet, for which only [Start] and [Fork] are taken.
//
// The error is always a *[Refusal] and means that nothing changed. A Result
// without Batch changed nothing either: the input was stale, a duplicate or
// without effect, as Result.Disposition says, and has no id or came too late for the
// run; otherwise a [Noted] keeps the id. Neither g, s nor anything that
// they refer to is changed; what the Result refers to must not be changed by
// the caller. g must satisfy [CheckGraph].
func Step(g *Graph, s *State, in Input) (Result, error) {
	if start, ok := in.Command.(Start); ok {
		return begin(g, s, in, start)
	}
	if fork, ok := in.Command.(Fork); ok {
		return beginFork(g, s, in, fork)
	}
	if s == nil {
		return Result{}, &Refusal{Code: CodeNotFound, Reason: "RUN_NOT_FOUND", Field: "run_id", Message: "no such run"}
	}
	if g.States[s.Current] == nil || g.Digest != s.Digest {
		return Result{State: s}, &Refusal{
			Code: CodeInternal, Reason: "GRAPH_MISMATCH",
			Message: fmt.Sprintf("the run is in state %q of pack %s, the graph is of %s", s.Current, s.Digest, g.Digest),
		}
	}
	if s.Imported {
		return Result{State: s}, Imported()
	}
	t, err := newTxn(g, s, in)
	if err != nil {
		return Result{State: s}, err
	}
	if err := CheckExpected(s, in.Command); err != nil {
		return Result{State: s}, err
	}
	disposition, err := t.dispatch()
	if err != nil {
		return Result{State: s}, err
	}
	return t.result(disposition), nil
}

// dispatch calls the one method of the input's command.
func (t *txn) dispatch() (Disposition, error) {
	switch c := t.in.Command.(type) {
	case EmitEvent:
		return Accepted, t.emit(&c)
	case CompleteTurn:
		return Accepted, t.complete(&c)
	case SendInput:
		return Accepted, t.sendInput(&c)
	case SetArtifacts:
		return Accepted, t.setArtifacts(&c)
	case FailTurn:
		return t.fail(&c)
	case SuspendTurn:
		return Accepted, t.suspend(&c)
	case RequestSteps:
		return Accepted, t.request(&c)
	case ResolveStep:
		return t.resolve(&c)
	case LoseTurn:
		return t.loseTurn(&c), nil
	case LoseStep:
		return t.loseStep(&c), nil
	case FireTimer:
		return t.fire(&c), nil
	case Pause:
		return Accepted, t.pause(&c)
	case Resume:
		return Accepted, t.resume(&c)
	case Cancel:
		return Accepted, t.cancel()
	case WriteOutput:
		return Accepted, t.writeOutput(&c)
	case NoteDelegation:
		return t.noteDelegation(&c)
	}
	return 0, &Refusal{Code: CodeInternal, Reason: "UNKNOWN_COMMAND", Message: fmt.Sprintf("command %T", t.in.Command)}
}
