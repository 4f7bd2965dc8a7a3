package godriver

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// retryTimeout bounds how long a call is repeated while the sidecar is away.
const retryTimeout = 50 * time.Second

// driver holds what a scenario has named so far.
type driver struct {
	out *output

	mu      sync.Mutex
	conn    *grpc.ClientConn
	address string
	// ledger is the file in which tools write down that they were called.
	ledger string
	// runs are ids by name, turns what GetTurn gave by name.
	runs  map[string]string
	turns map[string]*pawlv1.GetTurnResponse
	tails map[string]*tail
	// digests are of the calls that were looked at.
	digests    map[inspectedCall]string
	holdPoints *holdPoints
	// drain ends the worker.
	drain context.CancelFunc
	ended chan struct{}
	// serves are the processes that serve runs by their names, by server.
	serves bool
	server *server
}

type verb func(*driver, context.Context, args) (any, error)

var table = map[string]verb{
	"answer_model":      (*driver).answerModel,
	"approvals":         (*driver).approvals,
	"arm":               (*driver).armPoint,
	"artifacts":         (*driver).artifacts,
	"cancel":            (*driver).cancel,
	"complete":          (*driver).complete,
	"decide":            (*driver).decide,
	"emit":              (*driver).emit,
	"fail":              (*driver).fail,
	"flood":             (*driver).flood,
	"fork":              (*driver).fork,
	"info":              (*driver).info,
	"input":             (*driver).input,
	"model_step":        (*driver).modelStep,
	"update_model_call": (*driver).updateModelCall,
	"output":            (*driver).output,
	"pause":             (*driver).pause,
	"ping":              func(*driver, context.Context, args) (any, error) { return nil, nil },
	"raise_budget":      (*driver).raiseBudget,
	"records":           (*driver).records,
	"register":          (*driver).register,
	"release":           (*driver).release,
	"request":           (*driver).requestSteps,
	"request_model":     (*driver).requestModel,
	"reset":             (*driver).reset,
	"resolve":           (*driver).resolve,
	"resume":            (*driver).resume,
	"serve":             (*driver).serve,
	"set":               (*driver).set,
	"start":             (*driver).start,
	"steer":             (*driver).steer,
	"stop":              (*driver).stop,
	"stop_run":          (*driver).stopRun,
	"suspend":           (*driver).suspend,
	"turn":              (*driver).turn,
	"verify":            (*driver).verify,
	"wait":              (*driver).wait,
	"watch":             (*driver).watch,
	"watched":           (*driver).awaitRecords,
	"worker":            (*driver).worker,
}

func (d *driver) perform(ctx context.Context, r request) (any, error) {
	verb, known := table[r.Op]
	if !known {
		return nil, status.Errorf(codes.Unimplemented, "no verb %s", r.Op)
	}
	var a args
	if len(r.Args) > 0 {
		if err := json.Unmarshal(r.Args, &a); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", r.Op, err)
		}
	}
	return verb(d, ctx, a)
}

// reset points the driver at a sidecar and forgets all names.
func (d *driver) reset(_ context.Context, a args) (any, error) {
	quick := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}
	conn, err := grpc.NewClient(a.Address,
		grpc.WithPerRPCCredentials(bearer(a.AuthToken)),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStreamInterceptor(d.mortalStream),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close()
	}
	d.conn, d.address, d.ledger, d.serves = conn, a.Address, a.Ledger, a.Serves
	d.runs, d.turns, d.tails = map[string]string{}, map[string]*pawlv1.GetTurnResponse{}, map[string]*tail{}
	d.digests = map[inspectedCall]string{}
	d.holdPoints = newHolds()
	d.drain, d.ended, d.server = nil, nil, nil
	return nil, nil
}

func (d *driver) client() pawlv1.RunServiceClient {
	d.mu.Lock()
	defer d.mu.Unlock()
	return pawlv1.NewRunServiceClient(d.conn)
}

// runID is the run that a verb is about.
func (d *driver) runID(a args) string {
	if a.RunID != "" {
		return a.RunID
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.runs[named(a.Run, "run")]
}

// named is a name, or what is meant where none is given.
func named(name, fallback string) string {
	if name == "" {
		return fallback
	}
	return name
}

// aliasOf is the first name of a run.
func (d *driver) name(as, id string) (alias string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, known := range maps.All(d.runs) {
		if known == id {
			alias = name
		}
	}
	d.runs[named(as, "run")] = id
	return alias
}

// turnOf is the turn that a verb is about: one that was fetched, or one by hand.
func (d *driver) turnOf(a args) *pawlv1.GetTurnResponse {
	if a.Ref != nil {
		return &pawlv1.GetTurnResponse{Turn: &pawlv1.TurnRef{
			RunId: d.runID(a), TurnSeq: a.Ref.TurnSeq, Attempt: a.Ref.Attempt, Token: a.Ref.Token,
		}}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turns[named(a.Turn, current)]
}

// current is the name of a turn that is given none.
const current = "current"

// token is that of a turn, for verbs that go without unless one is named.
func (d *driver) token(a args) string {
	if a.Turn == "" && a.Ref == nil {
		return ""
	}
	return d.turnOf(a).GetTurn().GetToken()
}

// retry makes a call, and the very same one again while the sidecar is away.
func retry[Q, A any](ctx context.Context, call func(context.Context, Q, ...grpc.CallOption) (A, error), q Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, retryTimeout)
	defer cancel()
	for {
		answer, err := call(ctx, q)
		if status.Code(err) != codes.Unavailable || ctx.Err() != nil {
			return answer, err
		}
	}
}
