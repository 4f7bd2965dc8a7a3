package runtime

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// The check of idempotency ids is optimistic. The engine looks up an id only if the machine refused the
// input, or if the commit found that the id is used. For callers, the order of the checks in semantics
// §4 still holds: an input with a used id is answered as a repeat before any other refusal.

// refuse returns the error for an input that was refused for the given reason. If the input is a repeat
// of an earlier input, refuse returns the answer to that input instead.
func (t *execution) refuse(ctx context.Context, reason error) (Answer, error) {
	answer, found, err := t.repeat(ctx)
	if found || err != nil {
		return answer, err
	}
	return Answer{}, reason
}

// repeat answers an input whose id was used before. If the body is the same, it returns the first
// answer. Otherwise the error is ALREADY_EXISTS. It returns false if the id was not used before.
func (t *execution) repeat(ctx context.Context) (Answer, bool, error) {
	if t.input.ID == "" {
		return Answer{}, false, nil
	}
	key := machine.Dedupe{
		Scope: machine.PerRun, Kind: machine.KindOf(t.op.command), RunID: t.op.key.ID, ID: t.input.ID,
	}
	if t.op.start != nil {
		key.Scope, key.Principal, key.RunID = machine.PerPrincipal, t.op.principal.Name(), ""
	}
	row, found, err := t.e.store.Consumed(ctx, t.op.key.Namespace, key)
	switch {
	case err != nil:
		return Answer{}, false, fmt.Errorf("runtime: look up id %q: %w", t.input.ID, err)
	case !found:
		return Answer{}, false, nil
	case row.BodyHash == t.input.BodyHash:
		answer, err := t.firstAnswer(ctx, row)
		return answer, true, err
	case t.op.implicitID && key.Kind == machine.CmdAnswerModel:
		return Answer{}, false, &machine.Error{
			Code: machine.CodeAlreadyExists, Reason: "ANSWER_CONFLICT", Field: "outcome", Seq: row.First,
			Message: "another answer is recorded for this attempt",
		}
	case t.op.implicitID:
		// The same execution sent another body. The caller gets the reason of the refusal (stale).
		return Answer{}, false, nil
	}
	return Answer{}, false, &machine.Error{
		Code: machine.CodeAlreadyExists, Reason: "ID_REUSED", Field: validate.IDField(key.Kind), Seq: row.First,
		Message: fmt.Sprintf("id %q was used for another request", t.input.ID),
	}
}

// firstAnswer returns the answer to the first input with this id. It computes the answer again from the
// records.
func (t *execution) firstAnswer(ctx context.Context, row machine.Dedupe) (Answer, error) {
	key := RunKey{Namespace: t.op.key.Namespace, ID: row.RunID}
	entry, err := t.e.store.Entry(ctx, key.Namespace, key.ID, row.First)
	if err != nil {
		return Answer{}, fmt.Errorf("runtime: read record %d of run %s: %w", row.First, key.ID, err)
	}
	head, err := t.e.Head(ctx, key)
	if err != nil {
		return Answer{}, err
	}
	prog, err := t.e.programs.Of(ctx, key.Namespace, head)
	if err != nil {
		return Answer{}, err
	}
	result, err := t.e.past.Result(ctx, head, prog.Graph, &entry)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{
		RunID: key.ID, State: result.State, Entry: entry, Duplicate: true, Disposition: result.Disposition,
		Turn: t.openTurn(prog.Graph, result.State), Graph: prog.Graph,
	}
	if _, asked := entry.Input.Command.(machine.RequestSteps); asked {
		// The answer contains the steps that the first input requested, with their current outcomes.
		answer.State = head
		if result.Steps, err = t.stepsNow(ctx, key, head, result.Steps); err != nil {
			return Answer{}, err
		}
	}
	if err := t.recorded(ctx, &answer); err != nil {
		return Answer{}, err
	}
	return t.withSteps(ctx, answer, result)
}

// stepsNow returns the current outcomes of requests that were answered before. If the caller itself may
// make a call, stepsNow checks the request of this call again, under the step's key, before it returns
// the call. The check is needed because the caller may have lost the right to make the call, or the run
// or the turn may be over.
func (t *execution) stepsNow(ctx context.Context, key RunKey, head *machine.State, first []machine.StepOutcome) ([]machine.StepOutcome, error) {
	now := slices.Clone(first)
	var out []int
	for i := range now {
		if now[i].Step == 0 {
			continue
		}
		step, err := t.e.past.FindStep(ctx, key, head, now[i].Step)
		if err != nil {
			return nil, err
		}
		now[i] = rules.OutcomeOf(step)
		now[i].Replayed = first[i].Replayed
		if step.Dispatchable() {
			out = append(out, i)
		}
	}
	if len(out) == 0 || t.op.holder != nil {
		return now, nil
	}
	return now, t.rerequest(out, now)
}

// rerequest checks the requests at the given indexes again, as if they were new requests.
func (t *execution) rerequest(places []int, outcomes []machine.StepOutcome) error {
	if _, err := t.authorize(); err != nil {
		return err
	}
	asked := t.input.Command.(machine.RequestSteps)
	again := asked
	again.Requests = nil
	for _, i := range places {
		request := asked.Requests[i]
		if request.Call == nil {
			request.Key = outcomes[i].Key
		}
		again.Requests = append(again.Requests, request)
	}
	in := t.input
	in.ID, in.BodyHash, in.Command = "", [32]byte{}, again
	result, err := rules.Step(t.program.Graph, t.state, in)
	if err != nil {
		return err
	}
	return result.Refused
}
