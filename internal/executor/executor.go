package executor

import (
	"cmp"
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

// Config configures an [Executor].
type Config struct {
	// Conn is the connection to the sidecar, with the rights of the sidecar's own executor. Required.
	Conn grpc.ClientConnInterface
	// ID is the name of the executor among the workers and in records. If a new worker has the same
	// name, it replaces the executor. Default [WorkerID].
	ID string
	// Namespace is the namespace of the runs whose turns are executed.
	Namespace string
	// Models are the endpoints. Required. A turn calls the first of these that applies. It fails if a named model is
	// missing, or if no model is bound to a provider key other than the default:
	//   - the model that its pack names;
	//   - the model to which the prompt's provider key is bound;
	//   - the first endpoint for which the turn's prompt has model overrides;
	//   - the first endpoint.
	Models *model.Table
	// Turns bounds the number of turns that are executed at once.
	Turns int
	// Grace bounds the time that Run takes to complete its turns after its context has ended.
	Grace time.Duration
	// OnError is called with the error of each failed execution.
	OnError func(error)
}

// Executor executes turns inside the sidecar. It is created with [New].
type Executor struct {
	cfg    Config
	runs   pawlv1.RunServiceClient
	worker *pawl.Worker
	// warned are the libraries for which warnOf has already reported rebuilt messages, by name and version.
	warned sync.Map
}

// WorkerID is the name of the executor in a sidecar that does not share its store.
const WorkerID = "sidecar"

// New returns an executor. [Executor.Run] connects it to the sidecar.
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

// endpoint returns the endpoint of the model that a turn calls. It returns an error if there is none, for example because
// the endpoint was removed after the run began.
func (e *Executor) endpoint(s *settings) (*model.Endpoint, error) {
	all := e.cfg.Models.Endpoints()
	name := cmp.Or(s.Model, e.cfg.Models.Bound(s.Provider))
	switch m := e.cfg.Models.Endpoint(name); {
	case m != nil:
		return m, nil
	case name != "":
		return nil, &pawl.Failure{
			Code: "NO_SUCH_MODEL", Message: fmt.Sprintf("the pack names the model %q, the sidecar has: %s", name, strings.Join(e.cfg.Models.Names(), ", ")),
		}
	case s.Provider != "" && s.Provider != model.DefaultProvider:
		return nil, &pawl.Failure{Code: "PROVIDER_UNBOUND", Message: fmt.Sprintf("the sidecar binds no model to the provider key %q any more", s.Provider)}
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

// round requests a round. If the round has no recorded answer, it calls the model.
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
