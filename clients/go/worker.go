package pawl

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TurnFunc executes one turn. Its context ends when the turn is not the worker's
// any more. A [*Failure] says how the execution failed; any other error is a
// retryable one.
type TurnFunc func(context.Context, *Turn) (Completion, error)

// ToolFunc executes one step and returns its result as JSON. Its context ends
// with the step's deadline, or when the step is not the worker's any more.
type ToolFunc func(context.Context, *Step) (json.RawMessage, error)

// Completion is what a turn ends with.
type Completion struct {
	// Event moves the run; "" = none.
	Event     string
	Output    []*pawlv1.Part
	Messages  []*pawlv1.Message
	Artifacts []*pawlv1.ArtifactWrite
	Usage     *pawlv1.Usage
	// Await makes the run wait for an input or an authorisation, whatever the
	// state; not with an Event.
	Await pawlv1.Awaiting
	// Reply answers the sender of an A2A message with a message instead of a task.
	Reply bool
	// ConversationThroughStep is the MODEL step up to which what was said is part of the conversation; 0 =
	// none.
	ConversationThroughStep uint32
}

// Failure is a failed execution with a code of its own.
type Failure struct {
	Code, Message string
	// Final: another attempt cannot help.
	Final bool
	// Unknown: what the call changes elsewhere may have happened all the same, as after a
	// request that had no answer: the pack's on_unknown says what follows (steps only, and
	// not with Final).
	Unknown bool
	// Reject: the agent refuses the work; implies Final (turns only).
	Reject bool
	// RejectsAnswer: what the model answered last in the turn is no good; the next attempt asks it anew
	// for that round, and tells it the code and the message (turns only, and not with Final).
	RejectsAnswer bool
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// WorkerConfig says what a worker executes, for which sidecar, and how much at once.
type WorkerConfig struct {
	// Conn leads to the sidecar. Required.
	Conn grpc.ClientConnInterface
	// ID is the worker's own, the same over its reconnects. Required.
	ID string
	// Namespace of its work. Default: "default".
	Namespace string
	// Packs that it is for. Default: all.
	Packs []string
	// Prompts, Agents and Tools by key; "*" takes those that have no function of
	// their own.
	Prompts map[string]TurnFunc
	Agents  map[string]TurnFunc
	Tools   map[string]ToolFunc
	// Turns and Steps bound what is executed at once. Default 1 each, where there
	// are functions for them.
	Turns, Steps int
	// AllowUnknown takes names that no pack has.
	AllowUnknown bool
	// Retry is the pause before it connects again. Default 100 ms.
	Retry time.Duration
	// Grace bounds how long Run finishes what it has after its context ended; the
	// rest is returned to the sidecar. Default 30 s.
	Grace time.Duration
	// OnError is told what went wrong in a function, or with its answer; it is
	// called from several goroutines. Default: nobody is told.
	OnError func(error)
}

// Worker executes work. Use [NewWorker].
type Worker struct {
	cfg WorkerConfig
	// ended is closed when Run returns.
	ended chan struct{}
	// instance is this process; see WorkerRegistration.instance.
	instance string
	// received is the highest number of a step that came. Guarded by mu.
	received uint64

	mu sync.Mutex
	// session is the registered stream; nil while there is none. changed is closed
	// and replaced when it changes.
	session *session
	changed chan struct{}
	turns   map[string]*Turn
	steps   map[string]*Step
	// served are the runs of EXECUTION_CALLER that it serves, by their ids.
	served  map[string]*served
	stopped bool
	// over: nothing is executed any more. An assignment that comes before the stream ends is
	// left to the sidecar, which has it back with that.
	over bool
	// running counts the functions that are executed; idle, where the worker stops, is closed when
	// none is. A [sync.WaitGroup] would not do: an assignment may come while somebody waits.
	running int
	idle    chan struct{}
}

// NewWorker checks the configuration; nothing is connected yet.
func NewWorker(cfg WorkerConfig) (*Worker, error) {
	if cfg.Conn == nil || cfg.ID == "" {
		return nil, errors.New("worker: Conn and ID are required")
	}
	if len(cfg.Prompts)+len(cfg.Agents) > 0 && cfg.Turns == 0 {
		cfg.Turns = 1
	}
	if len(cfg.Tools) > 0 && cfg.Steps == 0 {
		cfg.Steps = 1
	}
	if cfg.Retry == 0 {
		cfg.Retry = 100 * time.Millisecond
	}
	if cfg.Grace == 0 {
		cfg.Grace = 30 * time.Second
	}
	return &Worker{
		cfg: cfg, ended: make(chan struct{}), instance: rand.Text(), changed: make(chan struct{}), turns: make(map[string]*Turn), steps: make(map[string]*Step),
		served: make(map[string]*served),
	}, nil
}

// reportError reports what went wrong.
func (w *Worker) reportError(err error) {
	if w.cfg.OnError != nil {
		w.cfg.OnError(err)
	}
}

// Run connects and executes work until ctx ends; it connects again when the
// connection breaks, and keeps what it holds. When ctx ends it takes no more work,
// finishes what it has within Grace and returns nil. A registration that is refused
// is an error. It is called once.
func (w *Worker) Run(ctx context.Context) error {
	defer close(w.ended)
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go w.stopWith(ctx, end)
	for {
		err := w.connect(life)
		if life.Err() != nil {
			return nil
		}
		if err != nil && permanent(err) {
			return fmt.Errorf("worker %s: %w", w.cfg.ID, err)
		}
		select {
		case <-time.After(w.cfg.Retry):
		case <-life.Done():
			return nil
		}
	}
}

// stopWith drains the worker when ctx ends and then ends its life: when its tasks
// are done, or after Grace. A turn may wait for a step that nobody but this worker
// executes, and it takes none any more; the end of the stream returns both.
func (w *Worker) stopWith(ctx context.Context, end context.CancelFunc) {
	<-ctx.Done()
	w.mu.Lock()
	w.stopped = true
	s := w.session
	w.mu.Unlock()
	if s != nil {
		_ = s.send(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Drain{Drain: &pawlv1.WorkerDrain{}}})
	}
	select {
	case <-w.settled():
	case <-time.After(w.cfg.Grace):
	}
	w.abandon()
	end()
}

// execute calls do in a goroutine of its own, counted until it returns. It is called under mu.
func (w *Worker) execute(do func()) {
	w.running++
	go func() {
		defer w.executed()
		do()
	}()
}

func (w *Worker) executed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.settle()
}

// settled returns a channel that is closed once nothing is executed; nothing is any more from then on.
func (w *Worker) settled() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := make(chan struct{})
	w.idle = idle
	w.settle()
	return idle
}

// settle is called under mu.
func (w *Worker) settle() {
	if w.running == 0 && w.idle != nil {
		w.over = true
		close(w.idle)
		w.idle = nil
	}
}

// abandon ends the contexts of everything that the worker still has, and of what is on its
// way to it.
func (w *Worker) abandon() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, t := range w.turns {
		t.cancel()
	}
	for _, s := range w.steps {
		s.cancel()
	}
}

// connect registers and serves one stream to its end.
func (w *Worker) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pawlv1.NewWorkerServiceClient(w.cfg.Conn).Work(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(w.registration()); err != nil {
		_, err = stream.Recv() // Send says only that the stream is over
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	s := newSession(w, stream, first.GetRegistered().GetMaxMessageBytes())
	go s.out.run(stream)
	w.keep(first.GetRegistered(), s)
	w.use(s)
	defer w.use(nil)
	go s.heartbeat(ctx, first.GetRegistered().GetHeartbeatInterval().AsDuration())
	return s.receive(ctx)
}

// registration says what the worker executes and holds.
func (w *Worker) registration() *pawlv1.WorkRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	received := w.received
	reg := &pawlv1.WorkerRegistration{
		WorkerId: w.cfg.ID, Instance: w.instance, ReceivedSteps: &received, Client: "pawl-go", Packs: w.cfg.Packs, AllowUnknown: w.cfg.AllowUnknown,
		Prompts: keys(w.cfg.Prompts), Agents: keys(w.cfg.Agents), Tools: keys(w.cfg.Tools),
		TurnCapacity: int32(w.cfg.Turns), StepCapacity: int32(w.cfg.Steps), Batches: true,
	}
	for _, t := range w.turns {
		lease := t.lease()
		lease.StepRequests = int32(t.requests)
		reg.HeldTurns = append(reg.HeldTurns, lease)
	}
	for _, s := range w.steps {
		reg.HeldSteps = append(reg.HeldSteps, s.lease())
	}
	reg.ServedRuns = w.servedRuns()
	return &pawlv1.WorkRequest{
		Namespace: w.cfg.Namespace, Item: &pawlv1.WorkRequest_Register{Register: reg},
	}
}

func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// keep goes on with what the sidecar lets the worker keep, stops the rest, and
// asks for as much as there is room for.
func (w *Worker) keep(in *pawlv1.WorkerRegistered, s *session) {
	w.mu.Lock()
	turns, steps := map[string]*Turn{}, map[string]*Step{}
	for _, lease := range in.GetKeptTurns() {
		for token, t := range w.turns {
			if sameTurn(t.lease(), lease) {
				delete(w.turns, token)
				t.held = lease
				turns[lease.GetToken()] = t
			}
		}
	}
	for _, lease := range in.GetKeptSteps() {
		for token, st := range w.steps {
			if old := st.lease(); old.GetRunId() == lease.GetRunId() && old.GetStep() == lease.GetStep() && old.GetAttempt() == lease.GetAttempt() {
				delete(w.steps, token)
				st.held = lease
				steps[lease.GetToken()] = st
			}
		}
	}
	for _, t := range w.turns {
		t.cancel()
	}
	for _, st := range w.steps {
		st.cancel()
	}
	w.turns, w.steps = turns, steps
	free, freeSteps := w.cfg.Turns, w.cfg.Steps
	for _, t := range turns {
		if t.run == nil {
			free--
		}
	}
	for _, st := range steps {
		if st.run == nil {
			freeSteps--
		}
	}
	stopped := w.stopped
	w.mu.Unlock()
	if !stopped {
		s.credits(int32(free), int32(freeSteps))
	}
}

// sameTurn: both are leases of one delivery. A turn that was suspended or failed may be
// assigned again before the receipt of that comes, and the worker then has both.
func sameTurn(a, b *pawlv1.TurnLease) bool {
	return a.GetRunId() == b.GetRunId() && a.GetTurnSeq() == b.GetTurnSeq() &&
		a.GetAttempt() == b.GetAttempt() && a.GetDelivery() == b.GetDelivery()
}

// use makes s the session that requests go to.
func (w *Worker) use(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.session = s
	close(w.changed)
	w.changed = make(chan struct{})
}

// current waits for a session other than the given one.
func (w *Worker) current(ctx context.Context, not *session) (*session, error) {
	for {
		w.mu.Lock()
		s, changed := w.session, w.changed
		w.mu.Unlock()
		if s != nil && s != not {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
