package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/model"
	"github.com/pawl-dev/pawl/internal/worker"
)

// Config is what an executor needs.
type Config struct {
	// Conn leads to the sidecar, with the rights of the sidecar's own executor. Required.
	Conn grpc.ClientConnInterface
	// Namespace whose runs it executes.
	Namespace string
	// Models are the endpoints; turns ask the first one that their prompt names, and the
	// first of all where it names none. At least one.
	Models []*model.Endpoint
	// Turns bounds what is executed at once.
	Turns int
	// Grace bounds how long Run finishes what it has after its context ended.
	Grace time.Duration
	// OnError is told of failed executions.
	OnError func(error)
}

// Executor executes turns. Use [New].
type Executor struct {
	cfg    Config
	runs   pawlv1.RunServiceClient
	worker *worker.Worker
}

// WorkerID is what the executor is called among workers, and in records.
const WorkerID = "sidecar"

// New makes an executor; [Executor.Run] connects it.
func New(cfg Config) (*Executor, error) {
	if len(cfg.Models) == 0 {
		return nil, errors.New("executor: no model")
	}
	e := &Executor{cfg: cfg, runs: pawlv1.NewRunServiceClient(cfg.Conn)}
	var err error
	e.worker, err = worker.New(worker.Config{
		Conn: cfg.Conn, ID: WorkerID, Namespace: cfg.Namespace, Turns: cfg.Turns, Grace: cfg.Grace, OnError: cfg.OnError,
		Prompts: map[string]worker.TurnFunc{"*": e.turn}, Agents: map[string]worker.TurnFunc{"*": e.turn},
	})
	return e, err
}

// Run executes turns until ctx ends.
func (e *Executor) Run(ctx context.Context) error { return e.worker.Run(ctx) }

// endpoint is the model that a turn asks.
func (e *Executor) endpoint(s *settings) *model.Endpoint {
	for _, m := range e.cfg.Models {
		if _, named := s.ModelOverrides[m.Name]; named {
			return m
		}
	}
	return e.cfg.Models[0]
}

// turn executes one turn.
func (e *Executor) turn(ctx context.Context, t *worker.Turn) (worker.Completion, error) {
	x, err := e.exchange(t)
	if err != nil {
		return worker.Completion{}, err
	}
	for round := int32(1); ; round++ {
		if int(round) > x.maxRounds {
			return worker.Completion{}, &worker.Failure{
				Code: "MAX_ROUNDS", Message: fmt.Sprintf("the model did not come to an end in %d rounds", x.maxRounds),
			}
		}
		step, err := e.round(ctx, x, round)
		if err != nil {
			return worker.Completion{}, err
		}
		done, err := x.take(ctx, step)
		if err != nil || done != nil {
			return valueOf(done), err
		}
	}
}

func valueOf(done *worker.Completion) worker.Completion {
	if done == nil {
		return worker.Completion{}
	}
	return *done
}

// round asks for a round and, if the record has no answer to it, asks the model.
func (e *Executor) round(ctx context.Context, x *exchange, round int32) (*pawlv1.Step, error) {
	got, err := x.turn.RequestModel(ctx, round, x.request(), x.bound)
	if err != nil {
		return nil, err
	}
	if d := got.GetDenial(); d != nil {
		return nil, &worker.Failure{Code: d.GetCode(), Message: d.GetMessage(), Final: true}
	}
	step := got.GetStep()
	switch step.GetStatus() {
	case pawlv1.StepStatus_STEP_STATUS_OK:
		return step, nil
	case pawlv1.StepStatus_STEP_STATUS_PENDING:
		return e.call(ctx, x, step, got.GetMaxAnswerBytes())
	}
	return nil, &worker.Failure{Code: step.GetError().GetCode(), Message: step.GetError().GetMessage()}
}

// call makes the attempts of a call until there is an answer.
func (e *Executor) call(ctx context.Context, x *exchange, step *pawlv1.Step, limit int64) (*pawlv1.Step, error) {
	req, err := e.asked(ctx, x, step)
	if err != nil {
		return nil, err
	}
	req.MaxAnswer = limit
	for attempt := step.GetAttempt(); ; {
		answer, usage, failed := x.endpoint.Ask(ctx, req, func(text string) { x.tell(ctx, text) })
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if failed == nil {
			failed = usable(x.endpoint.Name, answer)
		}
		if usage != nil {
			usage.Model = x.endpoint.Name
		}
		report := &pawlv1.AnswerModelRequest{Step: step.GetStep(), Attempt: attempt, Usage: usage}
		var failure *model.Failure
		if errors.As(failed, &failure) {
			report.Outcome = &pawlv1.AnswerModelRequest_Failure{Failure: failureOf(failure)}
		} else {
			report.Outcome = &pawlv1.AnswerModelRequest_Answer{Answer: answer}
		}
		got, err := x.turn.AnswerModel(ctx, report)
		switch {
		case err != nil:
			return nil, err
		case failure == nil:
			step.Status, step.Model = pawlv1.StepStatus_STEP_STATUS_OK, &pawlv1.ModelStep{Answer: answer}
			return step, nil
		case got.GetNext() == 0:
			return nil, &worker.Failure{Code: failure.Code, Message: failure.Message, Final: failure.Final}
		}
		attempt = got.GetNext()
		if err := pause(ctx, got.GetWait().AsDuration()); err != nil {
			return nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// asked reads what the record says that the model is asked.
func (e *Executor) asked(ctx context.Context, x *exchange, step *pawlv1.Step) (*model.Request, error) {
	got, err := e.runs.GetModelStep(ctx, &pawlv1.GetModelStepRequest{
		Namespace: e.cfg.Namespace, RunId: x.turn.Assignment.GetLease().GetRunId(), Step: step.GetStep(),
	})
	if err != nil {
		return nil, err
	}
	return readRequest(got)
}

// maxMessage bounds an error's text, bytes, as the contract does.
const maxMessage = 16 << 10

func failureOf(f *model.Failure) *pawlv1.ModelFailure {
	out := &pawlv1.ModelFailure{Final: f.Final, Error: &pawlv1.Fault{Code: f.Code, Message: strings.ToValidUTF8(f.Message[:min(len(f.Message), maxMessage)], "")}}
	if f.RetryAfter > 0 {
		out.RetryAfter = durationOf(f.RetryAfter)
	}
	return out
}
