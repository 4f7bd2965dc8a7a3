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

// TurnFunc executes one turn. Its context ends when the worker loses the turn. [ErrSuspended] releases
// the turn. A [*Failure] sets the code of a failed execution. Any other error fails the attempt, and the
// turn can be retried.
type TurnFunc func(context.Context, *Turn) (Completion, error)

// ToolFunc executes one step and returns its result as JSON in UTF-8. Its context ends at the step's
// deadline or when the worker loses the step.
type ToolFunc func(context.Context, *Step) (json.RawMessage, error)

// Completion is the result of a turn. The zero value completes the turn without an event.
type Completion struct {
	// Event is the event that the run follows. "" means none.
	Event     string
	Output    []*pawlv1.Part
	Messages  []*pawlv1.Message
	Artifacts []*pawlv1.ArtifactWrite
	Usage     *pawlv1.Usage
	// Await makes the run wait for an input or an authorisation. It must not be set together with
	// Event.
	Await pawlv1.Awaiting
	// Reply means that an A2A message is answered with a message instead of a task.
	Reply bool
	// ConversationThroughStep is a MODEL step. The messages of the turn up to this step are added to
	// the conversation. 0 means that there is none.
	ConversationThroughStep uint32
}

// Failure is the error of a [TurnFunc] or [ToolFunc] that sets the code of the failed execution. Code
// may have at most 128 bytes and Message at most 16 KiB. Longer texts are cut off.
type Failure struct {
	Code, Message string
	// Final means that another attempt cannot succeed. [Turn.Step] sets it in each of its errors that is
	// a Failure, because another attempt of the turn would get the same recorded answer.
	Final bool
	// Unknown means that the call may have taken effect, for example if a request got no answer. The
	// pack's on_unknown decides how the run continues. It is only for steps, and a tool does not set it
	// together with Final. [Turn.Step] sets it in the error of a step with an unknown outcome.
	Unknown bool
	// Reject means that the agent refuses the work. It implies Final. It is only for turns.
	Reject bool
	// RejectsAnswer means that the model's last answer in the turn is unusable. The next attempt
	// repeats that round and sends Code and Message to the model. It is only for turns, and not
	// together with Final.
	RejectsAnswer bool
}

func (f *Failure) Error() string { return f.Code + ": " + f.Message }

// WorkerConfig configures a [Worker]. It contains the connection to the sidecar, the functions, and how
// much work the worker executes at once.
type WorkerConfig struct {
	// Conn is the connection to the sidecar. Required.
	Conn grpc.ClientConnInterface
	// ID identifies the worker in its namespace. It must stay the same when the worker reconnects.
	// Required.
	ID string
	// Namespace of the work. Default: "default".
	Namespace string
	// Packs are the packs that the worker serves, each as "id", "id@version" or a digest. There may be
	// at most 256. Default: all packs of the namespace.
	Packs []string
	// Prompts, Agents and Tools map names to functions. "*" is for names that have no function of their
	// own.
	Prompts map[string]TurnFunc
	Agents  map[string]TurnFunc
	Tools   map[string]ToolFunc
	// Turns and Steps bound how many turns and steps are executed at once. Default: 1 if there are
	// functions for them.
	Turns, Steps int
	// AllowUnknown accepts names that no registered pack has. Default: the sidecar refuses them.
	AllowUnknown bool
	// Retry is the pause before a reconnect. Default: 100 ms.
	Retry time.Duration
	// Grace bounds the time in which Run finishes its work after its context has ended. Unfinished work
	// is returned to the sidecar. Default: 30 s.
	Grace time.Duration
	// OnError is called with each error of a function, and with each refused answer. Several goroutines
	// may call it. An error that a function returns after its context has ended is dropped. Default: all
	// errors are dropped.
	OnError func(error)
}

// Worker executes turns and steps of a sidecar over one stream. It is created with [NewWorker]. Several
// goroutines may call Serve.
type Worker struct {
	cfg WorkerConfig
	// ended is closed when Run returns.
	ended chan struct{}
	// instance identifies this process; see WorkerRegistration.instance.
	instance string
	// received is the highest number of a received step. mu guards it.
	received uint64

	mu sync.Mutex
	// session is the registered stream. It is nil if there is none. changed is closed and replaced when
	// session changes.
	session *session
	changed chan struct{}
	turns   map[string]*Turn
	steps   map[string]*Step
	// served are the runs of EXECUTION_CALLER that the worker serves, by id.
	served  map[string]*servedRun
	stopped bool
	// noNewWork means that the worker starts no more functions. If an assignment arrives now, the sidecar
	// takes it back when the stream ends.
	noNewWork bool
	// running is the number of functions that are being executed. idle is set when the worker stops. It
	// is closed when running is 0. A [sync.WaitGroup] is not used, because assignments may arrive
	// during Wait.
	running int
	idle    chan struct{}
}

// NewWorker returns a worker with the given configuration. It returns an error if Conn or ID is
// missing. [Worker.Run] connects the worker.
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
		served: make(map[string]*servedRun),
	}, nil
}

// reportError passes an error to OnError.
func (w *Worker) reportError(err error) {
	if w.cfg.OnError != nil {
		w.cfg.OnError(err)
	}
}

// Run connects and executes work until ctx ends. If the connection breaks, it reconnects and keeps its
// turns and steps. When ctx ends, it accepts no more work, finishes its work within Grace and returns
// nil. If the sidecar refuses the worker permanently, it returns an error. Run may be called only once.
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

// stopWith drains the worker when ctx ends. It calls end when all functions have returned, or after
// Grace. It does not wait longer, because a turn may wait for a step that only this worker executes,
// and a draining worker gets no steps. The end of the stream then returns both to the sidecar.
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
	case <-w.idleChan():
	case <-time.After(w.cfg.Grace):
	}
	w.cancelAll()
	end()
}

// execute calls do in a new goroutine and counts it in running while it runs. The caller holds mu.
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

// idleChan returns a channel that is closed when no function is being executed. After that no function
// starts.
func (w *Worker) idleChan() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := make(chan struct{})
	w.idle = idle
	w.settle()
	return idle
}

// settle closes idle if no function is being executed. The caller holds mu.
func (w *Worker) settle() {
	if w.running == 0 && w.idle != nil {
		w.noNewWork = true
		close(w.idle)
		w.idle = nil
	}
}

// cancelAll cancels all turns and steps of the worker, and starts none of the assignments that arrive
// later.
func (w *Worker) cancelAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noNewWork = true
	for _, t := range w.turns {
		t.cancel()
	}
	for _, s := range w.steps {
		s.cancel()
	}
}

// connect opens a stream, registers the worker and handles the stream to its end.
func (w *Worker) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pawlv1.NewWorkerServiceClient(w.cfg.Conn).Work(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(w.registration()); err != nil {
		_, err = stream.Recv() // Send reports only that the stream is over; Recv has the cause.
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

// registration returns the worker's first message. It contains the names of its functions and the
// leases that it holds.
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

// keep continues the turns and steps that the worker still has according to the sidecar, and cancels
// the others. Then it requests as much work as there is free capacity.
func (w *Worker) keep(in *pawlv1.WorkerRegistered, s *session) {
	w.mu.Lock()
	turns, steps := map[string]*Turn{}, map[string]*Step{}
	for _, lease := range in.GetKeptTurns() {
		for token, t := range w.turns {
			if sameTurn(t.lease(), lease) {
				delete(w.turns, token)
				t.turnLease = lease
				turns[lease.GetToken()] = t
			}
		}
	}
	for _, lease := range in.GetKeptSteps() {
		for token, st := range w.steps {
			if old := st.lease(); old.GetRunId() == lease.GetRunId() && old.GetStep() == lease.GetStep() && old.GetAttempt() == lease.GetAttempt() {
				delete(w.steps, token)
				st.stepLease = lease
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

// sameTurn reports whether both leases belong to the same delivery. If a turn was suspended or failed,
// it may be assigned again before the receipt arrives, and then the worker holds both leases.
func sameTurn(a, b *pawlv1.TurnLease) bool {
	return a.GetRunId() == b.GetRunId() && a.GetTurnSeq() == b.GetTurnSeq() &&
		a.GetAttempt() == b.GetAttempt() && a.GetDelivery() == b.GetDelivery()
}

// use makes s the session for new requests. nil means that there is none.
func (w *Worker) use(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.session = s
	close(w.changed)
	w.changed = make(chan struct{})
}

// current waits for a session that is not equal to not, and returns it.
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
