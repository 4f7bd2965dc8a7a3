package godriver

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// news are the records after which a call may go out, or is answered or not wanted any more.
var news = []pawlv1.RecordKind{
	pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED, pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED,
	pawlv1.RecordKind_RECORD_KIND_STEP_CANCELLED, pawlv1.RecordKind_RECORD_KIND_RESUMED, pawlv1.RecordKind_RECORD_KIND_ENDED,
}

// request asks for calls, all in one commit.
func (h *ownHost) request(ctx context.Context, calls []stepCall) ([]*pawlv1.StepOutcome, error) {
	id, requests := or(""), callsOf(calls)
	for _, r := range requests {
		r.ByCaller = true
	}
	got, err := withToken(ctx, h, func(ref *pawlv1.TurnRef) (*pawlv1.RequestStepResponse, error) {
		return again(ctx, h.d.client().RequestStep, &pawlv1.RequestStepRequest{
			RunId: ref.GetRunId(), TurnSeq: ref.GetTurnSeq(), Attempt: ref.GetAttempt(), TurnToken: ref.GetToken(),
			Requests: requests, RequestId: id,
		})
	})
	return got.GetOutcomes(), err
}

// withToken makes a call with the turn's token, and once more with a fresh one where a sidecar that
// was started again does not know it, if the turn is still this one.
func withToken[A any](ctx context.Context, h *ownHost, call func(*pawlv1.TurnRef) (A, error)) (A, error) {
	ref := h.ref()
	got, err := call(ref)
	if reasonOf(err) != "TURN_TOKEN_STALE" {
		return got, err
	}
	fresh, failed := again(ctx, h.d.client().GetTurn, &pawlv1.GetTurnRequest{RunId: ref.GetRunId()})
	if failed != nil || fresh.GetTurn().GetTurnSeq() != ref.GetTurnSeq() || fresh.GetTurn().GetAttempt() != ref.GetAttempt() {
		return got, err
	}
	h.renew(fresh.GetTurn())
	return call(fresh.GetTurn())
}

// ref is the turn with the token as it is now.
func (h *ownHost) ref() *pawlv1.TurnRef {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.info.GetTurn()
}

// renew replaces the turn's token.
func (h *ownHost) renew(ref *pawlv1.TurnRef) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.info = &pawlv1.GetTurnResponse{Turn: ref, ArtifactSlots: h.info.GetArtifactSlots(), Prompt: h.info.GetPrompt()}
}

// finish gives the outcome of a call once it is answered. The tool is called here, and
// only while the sidecar says that the call may go out: after a decision, and after each
// attempt, the same request is made again, and what that answers goes out.
func (h *ownHost) finish(ctx context.Context, o *pawlv1.StepOutcome, c stepCall) (*pawlv1.StepOutcome, error) {
	made, after := int32(0), uint64(0)
	for o.GetStep().GetStatus() == pawlv1.StepStatus_STEP_STATUS_PENDING {
		step := o.GetStep()
		var err error
		switch {
		case step.GetBodiesOmitted(): // The same request alone is answered with them.
		case goes(step) && step.GetAttempt() > made:
			made = step.GetAttempt()
			err = h.answer(ctx, step)
		default:
			after, err = h.await(ctx, step, after)
		}
		if err != nil {
			return o, err
		}
		now, err := h.request(ctx, []stepCall{c})
		for reasonOf(err) == "PAUSED" { // Nothing goes out until the run is resumed.
			if after, err = h.await(ctx, step, after); err == nil {
				now, err = h.request(ctx, []stepCall{c})
			}
		}
		if err != nil {
			return o, err
		}
		o = now[0]
	}
	return o, nil
}

// goes says whether a pending call may go out: it is the caller's, nothing holds it for a
// decision, and no other step asks what came of its attempt.
func goes(step *pawlv1.Step) bool {
	return step.GetByCaller() && !step.GetApproval().GetHeld() && step.GetInquiry() == 0
}

// await waits for news of a step behind a record, and gives the record of the news.
func (h *ownHost) await(ctx context.Context, step *pawlv1.Step, after uint64) (uint64, error) {
	after = max(after, step.GetTurnSeq(), step.GetApproval().GetDecidedSeq())
	for {
		seq, err := h.follow(ctx, step.GetStep(), after)
		if status.Code(err) != codes.Unavailable || ctx.Err() != nil {
			return seq, err
		}
	}
}

// follow reads one connection until there is news.
func (h *ownHost) follow(ctx context.Context, step uint32, after uint64) (uint64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := h.d.client().StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{
		RunId: h.ref().GetRunId(), AfterSeq: after, Kinds: news, Follow: true,
	})
	for err == nil {
		var item *pawlv1.StreamTransitionsResponse
		if item, err = stream.Recv(); err == nil && concerns(item.GetRecord(), step) {
			return item.GetRecord().GetSeq(), nil
		}
	}
	return after, err
}

// concerns says whether a record is news of a step.
func concerns(r *pawlv1.Record, step uint32) bool {
	switch r.GetBody().(type) {
	case *pawlv1.Record_StepDecided:
		return r.GetStepDecided().GetStep() == step
	case *pawlv1.Record_StepResolved:
		return r.GetStepResolved().GetStep() == step
	case *pawlv1.Record_StepCancelled:
		return r.GetStepCancelled().GetStep() == step
	}
	return r != nil
}

// answer calls the tool and tells what came of it. Before the next attempt it waits as
// long as the pack wants.
func (h *ownHost) answer(ctx context.Context, step *pawlv1.Step) error {
	result, failed := h.p.tool(ctx, step.GetTool(), toolCall{
		step.GetPayloadJson(), step.GetStep(), step.GetAttempt(), step.GetIdempotencyKey(), step.GetDeadline().AsTime(),
	})
	req := &pawlv1.ResolveStepRequest{
		RunId: h.ref().GetRunId(), Step: step.GetStep(), Tool: step.GetTool(), Attempt: step.GetAttempt(),
		Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: string(result)},
	}
	if failed != nil {
		failure := failureOf(failed)
		req.Answer = &pawlv1.ResolveStepRequest_Error{Error: &pawlv1.Fault{Code: failure.Code, Message: failure.Message}}
		req.Unknown = failure.Unknown
	}
	got, err := withToken(ctx, h, func(ref *pawlv1.TurnRef) (*pawlv1.ResolveStepResponse, error) {
		req.TurnToken = ref.GetToken()
		return again(ctx, h.d.client().ResolveStep, req)
	})
	if err != nil {
		return err
	}
	if next := got.GetRecord().GetStepResolved().GetNotBefore(); next != nil {
		// Both times are the server's, so that clocks that differ do no harm.
		return pause(ctx, next.AsTime().Sub(got.GetRecord().GetAt().AsTime()))
	}
	return nil
}
