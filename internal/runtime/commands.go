package runtime

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// EmitEvent makes the transition that the graph has for the event in the current state (semantics §4). It is idempotent by EventID.
// Besides the errors of [Engine.Apply] it returns FAILED_PRECONDITION UNKNOWN_EVENT, which lists the events that the state accepts, and
// ABORTED SEQ_MISMATCH, which names the transition that was made first.
func (e *Engine) EmitEvent(ctx context.Context, req EmitRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.EventID, TurnToken: req.TurnToken,
		Command: machine.EmitEvent{Event: req.Event, Artifacts: req.Artifacts, ExpectedSeq: req.ExpectedSeq},
	})
}

// SendInput adds message parts to the input of the next turn of the visit (semantics §5). It is idempotent by MessageID.
func (e *Engine) SendInput(ctx context.Context, req InputRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.MessageID,
		Command: machine.SendInput{Parts: req.Parts, ExpectedSeq: req.ExpectedSeq, Envelope: req.Envelope, Step: req.Step},
	})
}

// SetArtifacts writes artifacts without a transition (semantics §7). It requires the same rights as
// EmitEvent. Idempotent by WriteID.
func (e *Engine) SetArtifacts(ctx context.Context, req ArtifactsRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.WriteID, TurnToken: req.TurnToken,
		Command: machine.SetArtifacts{Artifacts: req.Artifacts, ExpectedSeq: req.ExpectedSeq},
	})
}

// CompleteTurn ends the open turn with its output and optionally an event (semantics §5). It is idempotent by ID or, if there is no ID,
// by turn and attempt.
func (e *Engine) CompleteTurn(ctx context.Context, req CompleteRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.CompleteTurn{
			TurnSeq: req.TurnSeq, Attempt: req.Attempt, Output: req.Output, Messages: req.Messages,
			Usage: req.Usage, Event: req.Event, Artifacts: req.Artifacts, ExpectedSeq: req.ExpectedSeq,
			Await: req.Await, Reply: req.Reply, ConversationThroughStep: req.ConversationThroughStep,
		},
	})
}

// FailTurn reports that an execution of the open turn failed (semantics §5). Either the next attempt
// follows after a pause, or the run ends. FailTurn is idempotent in the same way as CompleteTurn.
func (e *Engine) FailTurn(ctx context.Context, req FailRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.FailTurn{
			TurnSeq: req.TurnSeq, Attempt: req.Attempt, Error: req.Error, Retryable: req.Retryable, Usage: req.Usage,
			Reject: req.Reject, Rejected: req.Rejected,
		},
	})
}

// WriteOutput stores a piece of the output of the open turn, for callers that watch the run before the turn
// is completed. Idempotent by ID.
func (e *Engine) WriteOutput(ctx context.Context, req OutputRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.WriteOutput{TurnSeq: req.TurnSeq, Attempt: req.Attempt, Piece: req.Piece},
	})
}

// SuspendTurn releases the open turn until its pending steps are answered (semantics §9).
func (e *Engine) SuspendTurn(ctx context.Context, req TurnCall) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.SuspendTurn{TurnSeq: req.TurnSeq, Attempt: req.Attempt},
	})
}

// RequestSteps requests tool calls of the open turn, in order (semantics §9). If a request has the key
// of an earlier request, its answer is the recorded one. If the key is known but the call differs, the
// error is FAILED_PRECONDITION STEP_MISMATCH. In this case the attempt has failed, and the answer
// contains the run after the failure.
func (e *Engine) RequestSteps(ctx context.Context, req StepsRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.RequestSteps{TurnSeq: req.TurnSeq, Attempt: req.Attempt, Requests: req.Requests},
	})
}

// ResolveStep answers a step (semantics §9). If the answer is no longer accepted, ResolveStep returns
// no error, and Disposition contains the reason.
func (e *Engine) ResolveStep(ctx context.Context, req ResolveRequest) (Answer, error) {
	answer, err := e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.ResolveStep{
			Step: req.Step, Tool: req.Tool, Attempt: req.Attempt, OK: req.OK, Result: req.Result, Error: req.Error,
			Final: req.Final, RetryAfter: req.RetryAfter, Unknown: req.Unknown, Usage: req.Usage, Metered: req.Metered,
		},
	})
	if errors.Is(err, errUnknownRun) {
		return Answer{RunID: req.RunID, Disposition: machine.IgnoredUnknownRun}, nil
	}
	return answer, err
}

// PauseRun sets the paused flag: events and step requests are refused until ResumeRun. Pausing a paused run
// has no effect.
func (e *Engine) PauseRun(ctx context.Context, req ControlRequest) (Answer, error) {
	return e.Apply(ctx, Request{RunRef: req.RunRef, ID: req.ID, Command: machine.Pause{Note: req.Note}})
}

// ResumeRun clears the paused flag.
func (e *Engine) ResumeRun(ctx context.Context, req ControlRequest) (Answer, error) {
	return e.Apply(ctx, Request{RunRef: req.RunRef, ID: req.ID, Command: machine.Resume{Note: req.Note}})
}
