package play

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/test/testkit"
)

const (
	// callsPerRun bounds what has to be put into one order.
	callsPerRun = 48
	// callTimeout bounds a call, and the search for an order.
	callTimeout = 60 * time.Second
)

// Linear is what clients share that race for the same runs and webhooks with starts, events
// and decisions, steps and their answers, cancellations and reads.
type Linear struct {
	ctx       context.Context //nolint:containedctx // of the test, for all clients
	startedAt time.Time
	// AllowRepeats means that a node may repeat calls without an id, if a repetition has no effect.
	AllowRepeats bool
	// Slow means that runs may live longer than the pause before a turn's next attempt. The model does not know that
	// pause, so no call fails a turn.
	Slow bool
	// Ended ends the clients.
	Ended atomic.Bool
	// Calls counts those that were begun.
	Calls   atomic.Int64
	clients []*LinearClient

	mu   sync.Mutex
	refs map[string]*knownRun
}

// knownRun is what the clients know of a run.
type knownRun struct {
	id string
	// visit, turn and step are the last received values. The current ones may be newer.
	visit, turn uint64
	step        uint32
}

// observe notes news of a run and returns what is known of it.
func (l *Linear) observe(name string, news func(*knownRun)) knownRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.refs[name]
	if r == nil {
		r = &knownRun{}
		l.refs[name] = r
	}
	news(r)
	return *r
}

// LinearClient makes calls, one after the other.
type LinearClient struct {
	*Linear

	id     int
	random *rand.Rand
	runs   pawlv1.RunServiceClient
	hooks  pawlv1.DeliveryServiceClient
	// ofRuns and ofHooks are the histories; unknown counts calls without an answer.
	ofRuns, ofHooks []porcupine.Operation
	unknown         int
	// lastWebhook is the webhook that it called about last.
	lastWebhook string
}

// NewLinear begins a history.
func NewLinear(ctx context.Context) *Linear {
	return &Linear{ctx: ctx, startedAt: time.Now(), refs: map[string]*knownRun{}}
}

// Client is one more client, by a connection. All are made before one of them is used.
func (l *Linear) Client(conn grpc.ClientConnInterface) *LinearClient {
	c := &LinearClient{
		Linear: l, id: len(l.clients), random: rand.New(rand.NewPCG(uint64(len(l.clients)), 6)),
		runs: pawlv1.NewRunServiceClient(conn), hooks: pawlv1.NewDeliveryServiceClient(conn),
	}
	l.clients = append(l.clients, c)
	return c
}

// Race makes calls until it is over.
func (c *LinearClient) Race() {
	for !c.Ended.Load() && c.ctx.Err() == nil {
		c.call()
	}
}

// call makes one call about the run, or the webhook, that it is the turn of.
func (c *LinearClient) call() {
	turn := c.Calls.Add(1) / callsPerRun
	if c.random.IntN(8) == 0 {
		c.aboutHook(fmt.Sprint("hook-", turn/2))
		return
	}
	name := fmt.Sprint("desk-", turn)
	known := c.observe(name, func(*knownRun) {})
	if known.id == "" {
		c.start(name)
		return
	}
	switch c.random.IntN(10) {
	case 0:
		c.start(name)
	case 1:
		c.read(name, known)
	case 2, 3, 4:
		c.emit(name, known)
	case 5, 6:
		c.request(name, known)
	case 7, 8:
		c.resolve(name, known)
	default:
		if c.random.IntN(3) == 0 {
			c.cancel(name, known)
		}
	}
}

// note makes the call and keeps it with its answer. The answer is nil if it is unknown.
func (c *LinearClient) note(op runOp, call func(context.Context) (*runAnswer, error)) {
	began := int64(time.Since(c.startedAt))
	ctx, cancel := context.WithTimeout(c.ctx, callTimeout/2)
	defer cancel()
	answer, err := call(ctx)
	done := int64(time.Since(c.startedAt))
	switch {
	case err == nil:
	case unknown(err):
		answer, done = nil, math.MaxInt64
		c.unknown++
	default:
		answer = &runAnswer{reason: Reason(err), authority: status.Code(err) == codes.PermissionDenied}
	}
	c.ofRuns = append(c.ofRuns, porcupine.Operation{ClientId: c.id, Input: op, Call: began, Output: answer, Return: done})
}

// unknown reports whether the answer was lost, so that it is unknown whether the call took effect.
func unknown(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true // its own deadline, between two tries
	}
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}

// mayRepeat repeats a call that has an id, half of the times: it is one call then.
func mayRepeat[T any](ctx context.Context, c *LinearClient, call func(context.Context) (T, error)) (T, error) {
	if c.random.IntN(2) == 0 {
		return call(ctx)
	}
	return Retry(ctx, call)
}

func (c *LinearClient) start(name string) {
	op := runOp{run: name, id: name, command: machine.Start{RunID: "R", Execution: machine.Caller, Variables: []byte("{}")}}
	c.note(op, func(ctx context.Context) (*runAnswer, error) {
		got, err := Retry(ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
			return c.runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "desk", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: name})
		})
		if err != nil {
			return nil, err
		}
		c.observe(name, func(r *knownRun) {
			r.id = got.GetRun().GetRunId()
			if r.turn == 0 {
				r.visit, r.turn = got.GetRun().GetVisitSeq(), got.GetTurn().GetTurnSeq()
			}
		})
		return &runAnswer{seq: got.GetRun().GetSeq()}, nil
	})
}

func (c *LinearClient) read(name string, known knownRun) {
	c.note(runOp{run: name}, func(ctx context.Context) (*runAnswer, error) {
		got, err := c.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: known.id})
		if err != nil {
			return nil, err
		}
		return &runAnswer{seq: got.GetRun().GetSeq(), state: got.GetRun().GetState()}, nil
	})
}

func (c *LinearClient) emit(name string, known knownRun) {
	event := []string{"Round", "Round", "Approved", "Back", "Back", "Rejected"}[c.random.IntN(6)]
	expected := uint64(0)
	if c.random.IntN(2) == 0 {
		expected = known.visit
	}
	id := fmt.Sprintf("%d-%d", c.id, len(c.ofRuns))
	op := runOp{run: name, id: id, command: machine.EmitEvent{Event: event, ExpectedSeq: expected, Outside: true}}
	c.note(op, func(ctx context.Context) (*runAnswer, error) {
		got, err := mayRepeat(ctx, c, func(ctx context.Context) (*pawlv1.EmitEventResponse, error) {
			return c.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: known.id, Event: event, ExpectedSeq: expected, EventId: id})
		})
		if err != nil {
			return nil, err
		}
		c.observe(name, func(r *knownRun) {
			if seq := got.GetTransition().GetSeq(); seq > r.visit {
				r.visit, r.turn = seq, got.GetTurn().GetTurnSeq()
			}
		})
		return &runAnswer{seq: got.GetSeq(), state: got.GetState()}, nil
	})
}

func (c *LinearClient) request(name string, known knownRun) {
	if known.turn == 0 {
		return
	}
	key, n := fmt.Sprint("k", c.random.IntN(3)), c.random.IntN(2)
	if c.Slow {
		n = 0 // the same key with another payload fails the turn
	}
	payload := fmt.Sprintf(`{"n":%d}`, n)
	id := fmt.Sprintf("%d-%d", c.id, len(c.ofRuns))
	op := runOp{run: name, id: id, command: machine.RequestSteps{TurnSeq: known.turn, Attempt: 1, Requests: []machine.StepRequest{
		{Key: key, Tool: "measure", Payload: []byte(payload), PayloadHash: payloadHash(payload)},
	}}}
	c.note(op, func(ctx context.Context) (*runAnswer, error) {
		got, err := mayRepeat(ctx, c, func(ctx context.Context) (*pawlv1.RequestStepResponse, error) {
			return c.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
				RunId: known.id, TurnSeq: known.turn, Attempt: 1, RequestId: id,
				Requests: []*pawlv1.StepRequest{{Key: key, Tool: "measure", PayloadJson: payload, ByCaller: true}},
			})
		})
		if err != nil {
			return nil, err
		}
		outcome := got.GetOutcomes()[0]
		c.observe(name, func(r *knownRun) { r.step = max(r.step, outcome.GetStep().GetStep()) })
		return &runAnswer{seq: got.GetSeq(), step: outcome.GetStep().GetStep(), reason: outcome.GetDenial().GetCode()}, nil
	})
}

// resolve answers a step with a token that another client may have fenced meanwhile.
func (c *LinearClient) resolve(name string, known knownRun) {
	if known.step == 0 {
		return
	}
	turn, err := c.runs.GetTurn(c.ctx, &pawlv1.GetTurnRequest{RunId: known.id})
	if err != nil {
		return
	}
	step, result := 1+c.random.Uint32N(known.step), fmt.Sprintf(`{"length":%d}`, c.random.IntN(2))
	op := runOp{run: name, repeatable: c.AllowRepeats, command: machine.ResolveStep{Step: step, Tool: "measure", Attempt: 1, OK: true, Result: []byte(result)}}
	c.note(op, func(ctx context.Context) (*runAnswer, error) {
		got, err := c.runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
			RunId: known.id, Step: step, Tool: "measure", Attempt: 1, TurnToken: turn.GetTurn().GetToken(),
			Answer: &pawlv1.ResolveStepRequest_ResultJson{ResultJson: result},
		})
		if err != nil {
			return nil, err
		}
		return &runAnswer{seq: got.GetSeq(), disposition: machine.Disposition(got.GetDisposition())}, nil
	})
}

func (c *LinearClient) cancel(name string, known knownRun) {
	id := fmt.Sprintf("%d-%d", c.id, len(c.ofRuns))
	c.note(runOp{run: name, id: id, command: machine.Cancel{}}, func(ctx context.Context) (*runAnswer, error) {
		got, err := mayRepeat(ctx, c, func(ctx context.Context) (*pawlv1.CancelRunResponse, error) {
			return c.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: known.id, RequestId: id})
		})
		if err != nil {
			return nil, err
		}
		return &runAnswer{seq: got.GetSeq()}, nil
	})
}

// aboutHook puts, deletes or reads a webhook. It first deletes the webhook of the turns before, because each webhook reads
// all records, and many of them would take most of the time of a long test.
func (c *LinearClient) aboutHook(id string) {
	if c.lastWebhook != "" && c.lastWebhook != id {
		c.callHook(hookOp{id: c.lastWebhook})
	}
	c.lastWebhook = id
	op := hookOp{id: id, read: c.random.IntN(3) == 0}
	if !op.read && c.random.IntN(3) > 0 {
		op.url = fmt.Sprintf("http://127.0.0.1:9/%d-%d", c.id, len(c.ofHooks))
	}
	c.callHook(op)
}

func (c *LinearClient) callHook(op hookOp) {
	began := int64(time.Since(c.startedAt))
	answer, err := c.hook(op)
	done := int64(time.Since(c.startedAt))
	switch {
	case status.Code(err) == codes.NotFound:
		answer = &hookAnswer{missing: true}
	case Reason(err) == "SUBSCRIPTION_CONTENDED":
		return // It changed nothing.
	case err != nil:
		answer, done = nil, math.MaxInt64
		c.unknown++
	}
	c.ofHooks = append(c.ofHooks, porcupine.Operation{ClientId: c.id, Input: op, Call: began, Output: answer, Return: done})
}

func (c *LinearClient) hook(op hookOp) (*hookAnswer, error) {
	ctx, cancel := context.WithTimeout(c.ctx, callTimeout/2)
	defer cancel()
	switch {
	case op.read:
		got, err := c.hooks.GetWebhook(ctx, &pawlv1.GetWebhookRequest{WebhookId: op.id})
		return &hookAnswer{url: got.GetWebhook().GetUrl()}, err
	case op.url == "":
		_, err := c.hooks.DeleteWebhook(ctx, &pawlv1.DeleteWebhookRequest{WebhookId: op.id})
		return &hookAnswer{}, err
	default:
		secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef01234567"))
		got, err := c.hooks.PutWebhook(ctx, &pawlv1.PutWebhookRequest{WebhookId: op.id, Url: op.url, Secret: secret})
		return &hookAnswer{created: got.GetCreated()}, err
	}
}

// Judge looks for an order of the calls in which the pure machine gives the same answers as the clients
// received. A call whose answer was lost may be in the order or not. desk is the file of the pack.
func (l *Linear) Judge(t *testing.T, desk string) {
	t.Helper()
	var ofRuns, ofHooks []porcupine.Operation
	missing, refused := 0, map[string]int{}
	for _, c := range l.clients {
		ofRuns, ofHooks, missing = append(ofRuns, c.ofRuns...), append(ofHooks, c.ofHooks...), missing+c.unknown
		for _, op := range c.ofRuns {
			if a := op.Output.(*runAnswer); a != nil {
				refused[fmt.Sprintf("%T %s", op.Input.(runOp).command, a.reason)]++
			}
		}
	}
	model := runModel(t, desk)
	for _, part := range model.Partition(ofRuns) {
		alone := model
		alone.Partition = nil
		if result := porcupine.CheckOperationsTimeout(alone, part, callTimeout); result != porcupine.Ok {
			name := part[0].Input.(runOp).run
			t.Errorf("the history of %s is %v:%s", name, result, formatHistory(part, model))
			for _, record := range Journal(l.ctx, t, l.clients[0].runs, l.refs[name].id) {
				t.Logf("%s: %v", name, record)
			}
			return
		}
	}
	if result := porcupine.CheckOperationsTimeout(hookModel(), ofHooks, callTimeout); result != porcupine.Ok {
		t.Errorf("the history of the webhooks is %v", result)
	}
	testkit.ReportTried(t, len(ofRuns)+len(ofHooks), "calls that race")
	t.Logf("linear: %d calls about runs and %d about webhooks have an order, %d without an answer; %v", len(ofRuns), len(ofHooks), missing, refused)
}

// formatHistory returns a history as text, for the analysis of a failure.
func formatHistory(part []porcupine.Operation, model porcupine.Model) (out string) {
	for _, op := range part {
		out += fmt.Sprintf("\nclient %d  %d to %d  %s", op.ClientId, op.Call, op.Return, model.DescribeOperation(op.Input, deref(op.Output)))
	}
	return out
}

func deref(output any) any {
	if a, ok := output.(*runAnswer); ok && a != nil {
		return *a
	}
	return output
}
