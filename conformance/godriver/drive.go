package godriver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// drive executes the turns of a run by a script until it ends or waits for
// something from outside.
func (d *driver) drive(ctx context.Context, a args) (any, error) {
	id := d.runID(a)
	p := d.player(a.script)
	ctx, end := context.WithCancel(ctx)
	defer end()
	stream, err := d.openDriving(ctx)
	if err != nil {
		return nil, err
	}
	for {
		info, err := again(ctx, d.client().GetTurn, &pawlv1.GetTurnRequest{RunId: id})
		if reason := reasonOf(err); reason == "NO_OPEN_TURN" || reason == "RUN_TERMINAL" {
			break
		}
		if err != nil {
			return nil, err
		}
		if !info.GetTerminal() && len(info.GetAllowedEvents()) == 0 {
			break
		}
		if info.GetNotBefore() != nil {
			time.Sleep(time.Until(info.GetNotBefore().AsTime()))
		}
		if err := d.execute(ctx, &ownHost{d: d, p: p, info: info, stream: stream}); err != nil {
			return nil, err
		}
	}
	return d.runInfo(ctx, id, 0, nil)
}

func (d *driver) execute(ctx context.Context, h *ownHost) error {
	p, info := h.p, h.info
	acts := p.script.Turns[info.GetPrompt()]
	if acts == nil {
		return fmt.Errorf("no handler for prompt %s", info.GetPrompt())
	}
	r, err := p.turn(ctx, h, info, next(p, "turn ", info.GetPrompt(), acts))
	if err == nil {
		_, err = withToken(ctx, h, func(ref *pawlv1.TurnRef) (*pawlv1.CompleteTurnResponse, error) {
			return again(ctx, d.client().CompleteTurn, completion(ref, r, info.GetArtifactSlots(), ""))
		})
		if err == nil {
			return nil
		}
	}
	ref, failure := h.ref(), failureOf(err)
	_, err = again(ctx, d.client().FailTurn, &pawlv1.FailTurnRequest{
		RunId: ref.GetRunId(), TurnSeq: ref.GetTurnSeq(), Attempt: ref.GetAttempt(), TurnToken: ref.GetToken(),
		Error: &pawlv1.Fault{Code: failure.Code, Message: failure.Message}, Retryable: !failure.Final, RequestId: or(""),
	})
	if reasonOf(err) == "RUN_TERMINAL" {
		return nil
	}
	return err
}

func failureOf(err error) *pawl.Failure {
	if failure, ok := errors.AsType[*pawl.Failure](err); ok {
		return failure
	}
	if reason := reasonOf(err); reason != "" {
		return &pawl.Failure{Code: reason, Message: status.Convert(err).Message()}
	}
	return &pawl.Failure{Code: "HANDLER_ERROR", Message: err.Error()}
}

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	reason, _ := faultOf(err)["reason"].(string)
	return reason
}

// ownHost is a turn that this process holds by its token.
type ownHost struct {
	d     *driver
	p     *player
	asked int
	mu    sync.Mutex
	// info has the turn's token, which changes with the sidecar's process. The mutex guards it.
	info *pawlv1.GetTurnResponse
	// stream takes what is asked of models and told of them.
	stream *driving
}

// step asks for a call and makes it here.
func (h *ownHost) step(ctx context.Context, c stepCall) (string, error) {
	h.asked++
	c.Key = named(c.Key, fmt.Sprintf("call-%d", h.asked))
	outcomes, err := h.request(ctx, []stepCall{c})
	if err != nil {
		return "", err
	}
	outcome := outcomes[0]
	if denial := outcome.GetDenial(); denial != nil {
		return "", &pawl.Failure{Code: denial.GetCode(), Message: denial.GetMessage()}
	}
	outcome, err = h.finish(ctx, outcome, c)
	if err != nil {
		return "", err
	}
	step := outcome.GetStep()
	if step.GetStatus() != pawlv1.StepStatus_STEP_STATUS_OK {
		return "", &pawl.Failure{Code: step.GetError().GetCode(), Message: step.GetError().GetMessage()}
	}
	return step.GetResultJson(), nil
}

func (h *ownHost) set(ctx context.Context, values map[string]json.RawMessage) error {
	ref := h.info.GetTurn()
	_, err := again(ctx, h.d.client().SetArtifacts, &pawlv1.SetArtifactsRequest{
		RunId: ref.GetRunId(), Artifacts: writesOf(values, h.info.GetArtifactSlots()), TurnToken: ref.GetToken(), WriteId: or(""),
	})
	return err
}

func (h *ownHost) partial(context.Context, string) error { return nil }

func (h *ownHost) requestModel(_ context.Context, n int32, r round) (*pawlv1.RequestModelResponse, error) {
	ref := h.info.GetTurn()
	got, err := h.stream.make(&pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_RequestModel{RequestModel: &pawlv1.RequestModelRequest{
		RunId: ref.GetRunId(), TurnSeq: ref.GetTurnSeq(), Attempt: ref.GetAttempt(), TurnToken: ref.GetToken(),
		Round: n, Request: r.Ask.wire(), Bound: r.Bound.wire(),
	}}})
	return got.GetRequestModel(), err
}

func (h *ownHost) answerModel(_ context.Context, answer *pawlv1.AnswerModelRequest) (*pawlv1.AnswerModelResponse, error) {
	answer.RunId, answer.TurnToken = h.info.GetTurn().GetRunId(), h.info.GetTurn().GetToken()
	got, err := h.stream.make(&pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_AnswerModel{AnswerModel: answer}})
	return got.GetAnswerModel(), err
}

func (h *ownHost) noteModel(_ context.Context, step uint32, attempt int32, id string) error {
	ref := h.info.GetTurn()
	_, err := h.stream.make(&pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_NoteModel{NoteModel: &pawlv1.NoteModelRequest{
		RunId: ref.GetRunId(), Step: step, Attempt: attempt, TurnToken: ref.GetToken(), ResponseId: id,
	}}})
	return err
}

// calls asks for those of a model's answer in one commit, and makes them at the same time.
func (h *ownHost) calls(ctx context.Context, model uint32, calls []stepCall) ([]*pawlv1.StepOutcome, error) {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i].Call = &callRef{ModelStep: model, Index: int32(i)}
	}
	outcomes, err := h.request(ctx, calls)
	if err != nil {
		return nil, err
	}
	var group errgroup.Group
	for i, asked := range outcomes {
		group.Go(func() error {
			o, err := h.finish(ctx, asked, calls[i])
			outcomes[i] = o
			return err
		})
	}
	return outcomes, group.Wait()
}
