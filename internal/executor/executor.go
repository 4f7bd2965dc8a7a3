package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/model"
)

// Config is what an executor needs.
type Config struct {
	// Conn leads to the sidecar, with the rights of the sidecar's own executor. Required.
	Conn grpc.ClientConnInterface
	// ID is what it is called among workers and in records: another one of the same name takes
	// its place. Default [WorkerID].
	ID string
	// Namespace whose runs it executes.
	Namespace string
	// Models are the endpoints; turns ask the one that their pack names, else the first that
	// their prompt has overrides for, else the first of all. Required.
	Models *model.Table
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
	worker *pawl.Worker
	// warned are the libraries whose messages were made anew, by name and version.
	warned sync.Map
}

// WorkerID is what the executor of a sidecar is called that has the store to itself.
const WorkerID = "sidecar"

// New makes an executor; [Executor.Run] connects it.
func New(cfg Config) (*Executor, error) {
	if cfg.Models == nil {
		return nil, errors.New("executor: Models is required")
	}
	if cfg.ID == "" {
		cfg.ID = WorkerID
	}
	e := &Executor{cfg: cfg, runs: pawlv1.NewRunServiceClient(cfg.Conn)}
	var err error
	e.worker, err = pawl.NewWorker(pawl.WorkerConfig{
		Conn: cfg.Conn, ID: cfg.ID, Namespace: cfg.Namespace, Turns: cfg.Turns, Grace: cfg.Grace, OnError: cfg.OnError,
		Prompts: map[string]pawl.TurnFunc{"*": e.turn}, Agents: map[string]pawl.TurnFunc{"*": e.turn},
	})
	return e, err
}

// Run executes turns until ctx ends.
func (e *Executor) Run(ctx context.Context) error { return e.worker.Run(ctx) }

// endpoint is the model that a turn asks. What there was when the run began may be gone.
func (e *Executor) endpoint(s *settings) (*model.Endpoint, error) {
	all := e.cfg.Models.All()
	if s.Model != "" {
		if m := e.cfg.Models.Of(s.Model); m != nil {
			return m, nil
		}
		return nil, &pawl.Failure{
			Code: "NO_SUCH_MODEL", Message: fmt.Sprintf("the pack names the model %q, the sidecar has: %s", s.Model, strings.Join(e.cfg.Models.Names(), ", ")),
		}
	}
	if len(all) == 0 {
		return nil, &pawl.Failure{Code: "NO_MODELS", Message: "the sidecar has no model any more"}
	}
	for _, m := range all {
		if _, named := s.ModelOverrides[m.Name]; named {
			return m, nil
		}
	}
	return all[0], nil
}

// turn executes one turn.
func (e *Executor) turn(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	x, err := e.exchange(t)
	if err != nil {
		return pawl.Completion{}, err
	}
	for round := int32(1); ; round++ {
		if int(round) > x.maxRounds {
			return pawl.Completion{}, &pawl.Failure{
				Code: "MAX_ROUNDS", Message: fmt.Sprintf("the model did not come to an end in %d rounds", x.maxRounds), RejectsAnswer: true,
			}
		}
		step, err := e.round(ctx, x, round)
		if err != nil {
			return pawl.Completion{}, err
		}
		done, err := x.take(ctx, step)
		if err != nil || done != nil {
			return valueOf(done), err
		}
	}
}

func valueOf(done *pawl.Completion) pawl.Completion {
	if done == nil {
		return pawl.Completion{}
	}
	return *done
}

// round asks for a round and, if the record has no answer to it, asks the model.
func (e *Executor) round(ctx context.Context, x *exchange, round int32) (*pawlv1.Step, error) {
	x.round = round
	got, err := x.turn.RequestModel(ctx, round, x.next, x.bound())
	if err != nil {
		return nil, err
	}
	if d := got.GetDenial(); d != nil {
		return nil, &pawl.Failure{Code: d.GetCode(), Message: d.GetMessage(), Final: true}
	}
	step := got.GetStep()
	switch step.GetStatus() {
	case pawlv1.StepStatus_STEP_STATUS_OK:
		x.replay(ctx, step)
		return step, nil
	case pawlv1.StepStatus_STEP_STATUS_PENDING:
		return e.call(ctx, x, step, got.GetMaxAnswerBytes())
	}
	return nil, &pawl.Failure{Code: step.GetError().GetCode(), Message: step.GetError().GetMessage()}
}
