//go:build sim

package simulation

import (
	"context"
	"time"

	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// byStream executes a turn over the stream of a worker.
type byStream struct {
	turn *pawl.Turn
	runs pawlv1.RunServiceClient
}

func (b byStream) requestModel(ctx context.Context, round int32, asked *pawlv1.ModelRequest, bound *pawlv1.Usage) (*pawlv1.RequestModelResponse, error) {
	return b.turn.RequestModel(ctx, round, asked, bound)
}

func (b byStream) answerModel(ctx context.Context, told *pawlv1.AnswerModelRequest) (*pawlv1.AnswerModelResponse, error) {
	return b.turn.AnswerModel(ctx, told)
}

func (b byStream) updateModelCall(ctx context.Context, told *pawlv1.UpdateModelCallRequest) error {
	told.TurnToken = b.turn.Token()
	_, err := b.runs.UpdateModelCall(ctx, told)
	return err
}

func (b byStream) requestCall(ctx context.Context, call *pawlv1.StepRequest) (*pawlv1.StepOutcome, error) {
	return b.turn.RequestCall(ctx, call.GetCall(), call.GetTool(), call.GetPayloadJson())
}

func (b byStream) answered(ctx context.Context, step uint32, _ *pawlv1.StepRequest) (*pawlv1.Step, error) {
	return b.turn.Answered(ctx, step)
}

// caller executes a turn by unary calls, for a run whose turns its caller executes.
type caller struct {
	runs pawlv1.RunServiceClient
	run  string
	turn *pawlv1.TurnRef
	// hear means that the sidecar adds the required messages to a request.
	hear bool
}

func (c *caller) requestModel(ctx context.Context, round int32, asked *pawlv1.ModelRequest, bound *pawlv1.Usage) (*pawlv1.RequestModelResponse, error) {
	req := &pawlv1.RequestModelRequest{
		RunId: c.run, TurnSeq: c.turn.GetTurnSeq(), Attempt: c.turn.GetAttempt(), TurnToken: c.turn.GetToken(), Round: round, Request: asked, Bound: bound, IncludeRequired: c.hear,
	}
	return c.runs.RequestModel(ctx, req)
}

func (c *caller) answerModel(ctx context.Context, told *pawlv1.AnswerModelRequest) (*pawlv1.AnswerModelResponse, error) {
	told.TurnToken = c.turn.GetToken()
	return c.runs.AnswerModel(ctx, told)
}

func (c *caller) updateModelCall(ctx context.Context, told *pawlv1.UpdateModelCallRequest) error {
	told.TurnToken = c.turn.GetToken()
	_, err := c.runs.UpdateModelCall(ctx, told)
	return err
}

func (c *caller) requestCall(ctx context.Context, call *pawlv1.StepRequest) (*pawlv1.StepOutcome, error) {
	req := &pawlv1.RequestStepRequest{
		RunId: c.run, TurnSeq: c.turn.GetTurnSeq(), Attempt: c.turn.GetAttempt(), TurnToken: c.turn.GetToken(), Requests: []*pawlv1.StepRequest{call},
	}
	got, err := c.runs.RequestStep(ctx, req)
	return firstOf(got), err
}

// firstOf returns the outcome of a single request. nil means that there was no answer.
func firstOf(got *pawlv1.RequestStepResponse) *pawlv1.StepOutcome {
	if len(got.GetOutcomes()) == 0 {
		return nil
	}
	return got.GetOutcomes()[0]
}

// answered repeats the request for the call until it is answered. A repeat costs nothing.
func (c *caller) answered(ctx context.Context, _ uint32, call *pawlv1.StepRequest) (*pawlv1.Step, error) {
	for {
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return nil, err
		}
		got, err := c.requestCall(ctx, call)
		if err != nil {
			return nil, err
		}
		if got.GetStep().GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING {
			return got.GetStep(), nil
		}
	}
}

// talk executes the turn of a run that its caller executes with a model.
func (pp *people) talk(n *node, run string, seed uint64) {
	pp.calls++
	pp.busy.Go(func() {
		p := n.process()
		if p == nil {
			return
		}
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		err := pp.talks(ctx, n, run, seed)
		pp.world.note("talk of %s on %s ends: %v", short(run), n.name, status.Code(err))
		pp.world.judged("talk", err)
	})
}

func (pp *people) talks(ctx context.Context, n *node, run string, seed uint64) error {
	view, err := n.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: run})
	if err != nil {
		return err
	}
	by := &caller{runs: n.runs, run: run, turn: view.GetTurn(), hear: seed%2 == 0}
	dice := diceOf(run, seed)
	c := newConversation(pp.world, n, by, run, view, dice)
	answer, err := c.hold(ctx)
	if err != nil {
		return err
	}
	done := &pawlv1.CompleteTurnRequest{
		RunId: run, TurnSeq: by.turn.GetTurnSeq(), Attempt: by.turn.GetAttempt(), TurnToken: by.turn.GetToken(), Output: answer.GetParts(), ConversationThroughStep: c.last,
	}
	if events := view.GetAllowedEvents(); len(events) > 0 && dice.IntN(4) > 0 {
		done.Event = events[dice.IntN(len(events))]
	}
	_, err = n.runs.CompleteTurn(ctx, done)
	return err
}
