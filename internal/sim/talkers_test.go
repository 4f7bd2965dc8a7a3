//go:build sim

package sim

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// byStream is the executor of a turn that a worker has.
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

func (b byStream) noteModel(ctx context.Context, told *pawlv1.NoteModelRequest) error {
	told.TurnToken = b.turn.Token()
	_, err := b.runs.NoteModel(ctx, told)
	return err
}

func (b byStream) requestCall(ctx context.Context, call *pawlv1.StepRequest) (*pawlv1.StepOutcome, error) {
	return b.turn.RequestCall(ctx, call.GetCall(), call.GetTool(), call.GetPayloadJson())
}

func (b byStream) answered(ctx context.Context, step uint32, _ *pawlv1.StepRequest) (*pawlv1.Step, error) {
	return b.turn.Answered(ctx, step)
}

// caller executes a turn of a run that its caller executes, by calls or, where a stream is
// there, over Drive.
type caller struct {
	runs  pawlv1.RunServiceClient
	drive *driveStream
	run   string
	turn  *pawlv1.TurnRef
	// hear: the sidecar adds what has to be heard.
	hear bool
}

func (c *caller) requestModel(ctx context.Context, round int32, asked *pawlv1.ModelRequest, bound *pawlv1.Usage) (*pawlv1.RequestModelResponse, error) {
	req := &pawlv1.RequestModelRequest{
		RunId: c.run, TurnSeq: c.turn.GetTurnSeq(), Attempt: c.turn.GetAttempt(), TurnToken: c.turn.GetToken(), Round: round, Request: asked, Bound: bound, Hear: c.hear,
	}
	if c.drive == nil {
		return c.runs.RequestModel(ctx, req)
	}
	got, err := c.drive.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_RequestModel{RequestModel: req}})
	return got.GetRequestModel(), err
}

func (c *caller) answerModel(ctx context.Context, told *pawlv1.AnswerModelRequest) (*pawlv1.AnswerModelResponse, error) {
	told.TurnToken = c.turn.GetToken()
	if c.drive == nil {
		return c.runs.AnswerModel(ctx, told)
	}
	got, err := c.drive.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_AnswerModel{AnswerModel: told}})
	return got.GetAnswerModel(), err
}

func (c *caller) noteModel(ctx context.Context, told *pawlv1.NoteModelRequest) error {
	told.TurnToken = c.turn.GetToken()
	if c.drive == nil {
		_, err := c.runs.NoteModel(ctx, told)
		return err
	}
	_, err := c.drive.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_NoteModel{NoteModel: told}})
	return err
}

func (c *caller) requestCall(ctx context.Context, call *pawlv1.StepRequest) (*pawlv1.StepOutcome, error) {
	req := &pawlv1.RequestStepRequest{
		RunId: c.run, TurnSeq: c.turn.GetTurnSeq(), Attempt: c.turn.GetAttempt(), TurnToken: c.turn.GetToken(), Requests: []*pawlv1.StepRequest{call},
	}
	if c.drive == nil {
		got, err := c.runs.RequestStep(ctx, req)
		return firstOf(got), err
	}
	got, err := c.drive.do(ctx, &pawlv1.DriveCommand{Command: &pawlv1.DriveCommand_RequestStep{RequestStep: req}})
	return firstOf(got.GetRequestStep()), err
}

// firstOf is the outcome of one request; nil: there was no answer.
func firstOf(got *pawlv1.RequestStepResponse) *pawlv1.StepOutcome {
	if len(got.GetOutcomes()) == 0 {
		return nil
	}
	return got.GetOutcomes()[0]
}

// answered asks for the call again until it is answered, which costs nothing.
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

// driveStream is one Drive, until it breaks.
type driveStream struct {
	stream pawlv1.RunService_DriveClient
	halt   context.CancelFunc

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan *pawlv1.DriveAnswer
	broken  chan struct{}
}

func openDrive(ctx context.Context, runs pawlv1.RunServiceClient) (*driveStream, error) {
	ctx, halt := context.WithCancel(ctx)
	stream, err := runs.Drive(ctx)
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		halt()
		return nil, err
	}
	d := &driveStream{stream: stream, halt: halt, waiting: map[uint64]chan *pawlv1.DriveAnswer{}, broken: make(chan struct{})}
	go d.receive()
	return d, nil
}

func (d *driveStream) close() {
	d.halt()
	<-d.broken
}

func (d *driveStream) receive() {
	defer close(d.broken)
	for {
		in, err := d.stream.Recv()
		if err != nil {
			return
		}
		d.mu.Lock()
		for _, answer := range in.GetAnswers() {
			d.waiting[answer.GetId()] <- answer
			delete(d.waiting, answer.GetId())
		}
		d.mu.Unlock()
	}
}

// do makes one command; without an answer nobody knows what became of it.
func (d *driveStream) do(ctx context.Context, command *pawlv1.DriveCommand) (*pawlv1.DriveAnswer, error) {
	answered := make(chan *pawlv1.DriveAnswer, 1)
	d.mu.Lock()
	d.last++
	command.Id = d.last
	d.waiting[command.Id] = answered
	err := d.stream.Send(&pawlv1.DriveRequest{Commands: []*pawlv1.DriveCommand{command}})
	d.mu.Unlock()
	if err != nil {
		return nil, status.Error(codes.Unavailable, "the stream broke")
	}
	select {
	case answer := <-answered:
		if fault := answer.GetError(); fault != nil {
			return answer, status.ErrorProto(fault)
		}
		return answer, nil
	case <-d.broken:
		return nil, status.Error(codes.Unavailable, "the stream broke")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// talk executes the turn of a run that its caller executes with a model.
func (pp *people) talk(n *node, run string, seed uint64, overDrive bool) {
	pp.calls++
	pp.busy.Go(func() {
		p := n.process()
		if p == nil {
			return
		}
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		err := pp.talks(ctx, n, run, seed, overDrive)
		pp.world.note("talk of %s on %s ends: %v", short(run), n.name, status.Code(err))
		pp.world.judged("talk", err)
	})
}

func (pp *people) talks(ctx context.Context, n *node, run string, seed uint64, overDrive bool) error {
	view, err := n.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: run})
	if err != nil {
		return err
	}
	by := &caller{runs: n.runs, run: run, turn: view.GetTurn(), hear: seed%2 == 0}
	if overDrive {
		if by.drive, err = openDrive(ctx, n.runs); err != nil {
			return err
		}
		defer by.drive.close()
	}
	dice := diceOf(run, seed)
	c := newConversation(pp.world, n, by, run, view, dice)
	answer, err := c.hold(ctx)
	if err != nil {
		return err
	}
	done := &pawlv1.CompleteTurnRequest{
		RunId: run, TurnSeq: by.turn.GetTurnSeq(), Attempt: by.turn.GetAttempt(), TurnToken: by.turn.GetToken(), Output: answer.GetParts(), Said: c.last,
	}
	if events := view.GetAllowedEvents(); len(events) > 0 && dice.IntN(4) > 0 {
		done.Event = events[dice.IntN(len(events))]
	}
	_, err = n.runs.CompleteTurn(ctx, done)
	return err
}
