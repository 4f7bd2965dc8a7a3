package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// EmitEvent moves a run out of its current state by an event (semantics §4). The graph determines the next state. It is
// idempotent by EventID. Besides the errors of [Engine.Apply] it returns FAILED_PRECONDITION UNKNOWN_EVENT, which lists
// the events that the state accepts, and ABORTED SEQ_MISMATCH, which names the transition that was made first.
func (e *Engine) EmitEvent(ctx context.Context, req EmitRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.EventID, TurnToken: req.TurnToken,
		Command: machine.EmitEvent{Event: req.Event, Artifacts: req.Artifacts, ExpectedSeq: req.ExpectedSeq},
	})
}

// SendInput adds message parts to the input of the next turn of the state (semantics §5). It is idempotent by
// MessageID.
func (e *Engine) SendInput(ctx context.Context, req InputRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.MessageID,
		Command: machine.SendInput{Parts: req.Parts, ExpectedSeq: req.ExpectedSeq, Envelope: req.Envelope, Step: req.Step},
	})
}

// SetArtifacts writes artifacts without a transition (semantics §7). It requires the same rights as EmitEvent. It is
// idempotent by WriteID.
func (e *Engine) SetArtifacts(ctx context.Context, req ArtifactsRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.WriteID, TurnToken: req.TurnToken,
		Command: machine.SetArtifacts{Artifacts: req.Artifacts, ExpectedSeq: req.ExpectedSeq},
	})
}

// CompleteTurn ends the open turn with its output and optionally an event (semantics §5). It is idempotent by ID or, if there is no ID,
// by turn and attempt.
func (e *Engine) CompleteTurn(ctx context.Context, req CompleteRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.CompleteTurn{
			TurnSeq: req.TurnSeq, Attempt: req.Attempt, Output: req.Output, Messages: req.Messages,
			Usage: req.Usage, Event: req.Event, Artifacts: req.Artifacts, ExpectedSeq: req.ExpectedSeq,
			Await: req.Await, Reply: req.Reply, ConversationThroughStep: req.ConversationThroughStep,
		},
	})
}

// FailTurn reports that an execution of the open turn failed (semantics §5). Either the next attempt
// follows after a pause, or the run ends. FailTurn is idempotent in the same way as CompleteTurn.
func (e *Engine) FailTurn(ctx context.Context, req FailRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.FailTurn{
			TurnSeq: req.TurnSeq, Attempt: req.Attempt, Error: req.Error, Retryable: req.Retryable, Usage: req.Usage,
			Reject: req.Reject, Rejected: req.Rejected,
		},
	})
}

// WriteOutput stores a piece of the output of the open turn, so that callers can read it before the turn is completed.
// It is idempotent by ID.
func (e *Engine) WriteOutput(ctx context.Context, req OutputRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.WriteOutput{TurnSeq: req.TurnSeq, Attempt: req.Attempt, Piece: req.Piece},
	})
}

// SuspendTurn releases the open turn until its pending steps are answered (semantics §9), so that its executor need not
// wait for them.
func (e *Engine) SuspendTurn(ctx context.Context, req TurnCall) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.SuspendTurn{TurnSeq: req.TurnSeq, Attempt: req.Attempt},
	})
}

// RequestSteps requests tool calls of the open turn, in order (semantics §9). A request with the key of an earlier
// request gets the recorded answer. If the key is known but the call differs, the error is FAILED_PRECONDITION
// STEP_MISMATCH. In this case the attempt of the turn has failed, and the answer contains the run after the failure.
func (e *Engine) RequestSteps(ctx context.Context, req StepsRequest) (Answer, error) {
	return e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.RequestSteps{TurnSeq: req.TurnSeq, Attempt: req.Attempt, Requests: req.Requests},
	})
}

// ResolveStep answers a step (semantics §9). An answer that is no longer accepted is not an error: then Disposition
// contains the reason.
func (e *Engine) ResolveStep(ctx context.Context, req ResolveRequest) (Answer, error) {
	answer, err := e.Apply(ctx, Request{
		RunRef: req.RunRef, ID: req.ID, TurnToken: req.TurnToken,
		Command: machine.ResolveStep{
			Step: req.Step, Tool: req.Tool, Attempt: req.Attempt, OK: req.OK, Result: req.Result, Error: req.Error,
			Final: req.Final, RetryAfter: req.RetryAfter, Unknown: req.Unknown, Usage: req.Usage, Metered: req.Metered,
		},
	})
	if errors.Is(err, errUnknownRun) {
		return Answer{RunID: req.RunID, Disposition: machine.IgnoredUnknownRun}, nil
	}
	return answer, err
}

// PauseRun sets the paused flag: events and step requests are refused until ResumeRun. Pausing a paused run
// has no effect.
func (e *Engine) PauseRun(ctx context.Context, req ControlRequest) (Answer, error) {
	return e.Apply(ctx, Request{RunRef: req.RunRef, ID: req.ID, Command: machine.Pause{Note: req.Note}})
}

// ResumeRun clears the paused flag.
func (e *Engine) ResumeRun(ctx context.Context, req ControlRequest) (Answer, error) {
	return e.Apply(ctx, Request{RunRef: req.RunRef, ID: req.ID, Command: machine.Resume{Note: req.Note}})
}

// Call contains the caller and the namespace of a request.
type Call struct {
	// Namespace is the name of the namespace. "" means "default".
	Namespace string
	Principal Principal
	// Worker is set if a connected worker makes the request. The leases of the worker then determine its rights. It is
	// nil for other callers.
	Worker LeaseHolder
}

// RunRef addresses one run.
type RunRef struct {
	Call
	RunID string
}

// Request is one input to one run. It is the argument of [Engine.Apply]. The typed methods, for example
// EmitEvent and CompleteTurn, build a Request.
type Request struct {
	RunRef
	// ID is the idempotency id. It is unique for a run and a kind of command, and has at most 256
	// bytes. If it is "", a repeat of the request is a new input.
	ID string
	// TurnToken is the token that the executor of the open turn received. It is "" if the caller has none.
	TurnToken string
	// Command is the command of the input. All commands are allowed except Start, Fork, FireTimer, LoseTurn, LoseStep
	// and NoteDelegation.
	Command machine.Command
}

// StartRequest is the argument of [Engine.StartRun].
type StartRequest struct {
	Call
	// Pack refers to the pack of the run: "id", "id@version" or "sha256:<hex>".
	Pack string
	// Agent is the member key of the agent in the pack that the run executes. "" means the workflow of the pack.
	Agent string
	// State is the state in which the run begins instead of the entry state of the workflow. A state other than the
	// entry state needs the scope admin.
	State string
	// Variables is one JSON object. An empty value means {}. Config.MaxVariableBytes bounds its size.
	Variables []byte
	// Input is the first message to the entry state. It is empty if there is none.
	Input []machine.Part
	// Execution selects the executor of the run's turns: the caller, workers or the sidecar. It is required.
	Execution machine.Execution
	// Labels are the labels that the caller chose. Their keys must be distinct, and Config.MaxLabels bounds their
	// number. Given are labels that the sidecar itself adds.
	Labels, Given []machine.Label
	// RequestID is the idempotency id. It is unique for one principal in one namespace. It is "" if there is none.
	RequestID string
	// MaxSteps lowers the pack's bound of steps (RFC-103 context.max_steps). 0 means that the bound of the pack
	// applies.
	MaxSteps int
	// Conversation means that a user holds a conversation with the run, see [machine.Start].
	Conversation bool
	// MaxWallTime lowers the pack's bound of wall time. 0 means that the bound of the pack applies.
	MaxWallTime time.Duration
	// Parent and Depth are set if the run executes a delegation of another run.
	Parent *machine.Parent
	Depth  int
	// Lease bounds the consumption of a run that executes a delegation; zero means that there is no bound. Policy
	// restricts the tools that the run may call; nil means that there is no restriction.
	Lease  machine.Amount
	Policy *machine.ToolPolicy
	// Payer names the accounts that are charged for a run that executes a delegation of this store. If it is nil, the
	// labels of the run itself select the accounts. For a child of a run in this store (Parent without Origin), nil
	// means that no account is charged. Callers of the API cannot set it.
	Payer *machine.Payer
	// Task and Envelope are set if the run begins with an A2A message to an agent.
	Task     *machine.Task
	Envelope *machine.Envelope
	// Traceparent is the caller's W3C trace context. An invalid value is ignored, as the standard requires. It is
	// stored as the label [trace.Label], unless the caller sets that label. A repeated request may have another value.
	Traceparent string
}

// EmitRequest is the argument of [Engine.EmitEvent].
type EmitRequest struct {
	RunRef
	Event     string
	Artifacts []machine.ArtifactWrite
	EventID   string
	// ExpectedSeq must equal the run's visit_seq, the seq of its last transition. 0 means that it is not checked.
	ExpectedSeq uint64
	TurnToken   string
}

// InputRequest is the argument of [Engine.SendInput].
type InputRequest struct {
	RunRef
	Parts       []machine.Part
	MessageID   string
	ExpectedSeq uint64
	// Envelope is the data of an A2A message besides its parts. It is nil if the input is not an A2A message.
	Envelope *machine.Envelope
	// Step is the number of a pending delegation. The parts answer a question that its agent asked. If Step is 0, the next
	// turn receives the parts.
	Step uint32
}

// ArtifactsRequest is the argument of [Engine.SetArtifacts].
type ArtifactsRequest struct {
	RunRef
	Artifacts   []machine.ArtifactWrite
	WriteID     string
	ExpectedSeq uint64
	TurnToken   string
}

// TurnCall names the open turn that a request is about.
type TurnCall struct {
	RunRef
	TurnToken string
	// TurnSeq and Attempt identify the execution of the turn. If both are 0, the request is for the execution that has
	// the token. If no token is required, it is for the current execution of the open turn.
	TurnSeq uint64
	Attempt int
	// ID is the idempotency id. If it is "" for CompleteTurn or FailTurn, the execution of the turn is the id: the
	// first completion wins, and an equal second one is a duplicate. Without ID and TurnSeq, a repeat is recognized
	// only as long as the engine remembers its token.
	ID string
}

// CompleteRequest is the argument of [Engine.CompleteTurn].
type CompleteRequest struct {
	TurnCall
	Output   []machine.Part
	Messages []machine.Message
	Usage    machine.Usage
	// Event is the event that moves the run to another state. "" means that there is no transition.
	Event       string
	Artifacts   []machine.ArtifactWrite
	ExpectedSeq uint64
	// Await makes the run wait for an input after the turn. It is possible in any state, but not together with an
	// Event.
	Await machine.Awaiting
	// Reply means that the output is sent to the requesting agent as a plain A2A message, and not as the result of a
	// task.
	Reply bool
	// ConversationThroughStep is the step of a model call of the turn. The messages of the turn up to this step are added
	// to the conversation. 0 means that none are added.
	ConversationThroughStep uint32
}

// FailRequest is the argument of [Engine.FailTurn].
type FailRequest struct {
	TurnCall
	Error     machine.Fault
	Retryable bool
	Usage     machine.Usage
	// Reject means that the agent refuses the work, so that the run fails. It is not allowed together with Retryable.
	Reject bool
	// Rejected is the step of the model call whose answer the executor rejects. It is 0 if no answer is rejected.
	Rejected uint32
}

// OutputRequest is the argument of [Engine.WriteOutput].
type OutputRequest struct {
	TurnCall
	Piece machine.OutputPiece
}

// StepsRequest is the argument of [Engine.RequestSteps]. The engine sets PayloadHash, Holding, Denied, Effect, Policy, Local and Repeatable of the
// requests.
type StepsRequest struct {
	TurnCall
	Requests []machine.StepRequest
}

// ResolveRequest is the argument of [Engine.ResolveStep].
type ResolveRequest struct {
	RunRef
	TurnToken string
	Step      uint32
	Tool      string
	// Attempt is the number of the attempt that is answered, from 1. It is required, because it distinguishes a repeat
	// from an answer to another attempt.
	Attempt int
	OK      bool
	// Result is the JSON result if OK is true. Otherwise Error is set.
	Result []byte
	Error  machine.Fault
	// Final means that the step must not be tried again. RetryAfter is the shortest pause before the next attempt.
	Final      bool
	RetryAfter time.Duration
	// Unknown means that the outcome is unknown: the call may have happened despite the error.
	Unknown bool
	// Usage is the complete consumption of the attempt if Metered is true. If Metered is false, the consumption is
	// unknown.
	Usage   machine.Usage
	Metered bool
	ID      string
}

// ControlRequest is the argument of [Engine.CancelRun], [Engine.PauseRun] and
// [Engine.ResumeRun].
type ControlRequest struct {
	RunRef
	Note string
	ID   string
	// Cascade means that the runs which this run started are cancelled, too. It applies only to CancelRun.
	Cascade bool
}

// GetTurn returns the open turn of a run with the execution CALLER, or of a state with external orchestration. In a run with the execution
// CALLER, the caller gets a new token, which makes the older token of the turn invalid.
//
// Errors: FAILED_PRECONDITION NO_OPEN_TURN or RUN_TERMINAL; PERMISSION_DENIED SCOPE_MISSING; PERMISSION_DENIED TURN_LEASED if workers or
// the sidecar execute the turn.
func (e *Engine) GetTurn(ctx context.Context, ref RunRef) (TurnView, error) {
	key, err := e.Find(ref)
	if err != nil {
		return TurnView{}, err
	}
	for {
		view, err := e.fetchTurn(ctx, key, ref.Principal)
		if err != nil || view.Run.Execution != machine.Caller {
			return view, err
		}
		if e.takeToken(key, &view, ref.Principal) {
			e.notifyChanged(key)
			return view, nil
		}
		// The run has opened another turn since its state was read. So the state must be read again.
		if err := ctx.Err(); err != nil {
			return TurnView{}, err
		}
	}
}

// fetchTurn checks that the principal may execute the open turn, and renders the turn.
func (e *Engine) fetchTurn(ctx context.Context, key RunKey, p Principal) (TurnView, error) {
	s, err := e.Head(ctx, key)
	if err != nil {
		return TurnView{}, err
	}
	prog, err := e.programs.ProgramOf(ctx, key.Namespace, s)
	if err != nil {
		return TurnView{}, err
	}
	if s.Imported {
		return TurnView{}, rules.ImportedRunError()
	}
	if s.Status.Terminal() {
		return TurnView{}, NoTurn("RUN_TERMINAL", fmt.Sprintf("the run ended %s (%s)", s.Status, s.Reason), s)
	}
	_, err = policy.Decide(policy.Ask{
		Act: policy.Fetch, Principal: p, Orchestration: orchestration(prog.Graph, s), Leased: e.leased(key, s),
	})
	if err != nil {
		return TurnView{}, PolicyError(err)
	}
	if s.Turn == nil {
		return TurnView{}, NoTurn("NO_OPEN_TURN", "the run waits for an input, an event, an answer or a timer", s)
	}
	view, err := e.renderer.Turn(ctx, key, prog, s)
	if c := approval.WithholdChanged(s, view.Steps); err == nil && c != nil {
		if _, err = e.ApplyInternal(ctx, key, c); err == nil {
			return e.fetchTurn(ctx, key, p)
		}
	}
	return view, err
}

// takeToken issues a token for the turn in view. It returns false if the run has already a later turn.
func (e *Engine) takeToken(key RunKey, view *TurnView, p Principal) bool {
	token := e.cfg.IDs.Token()
	view.Token = token
	return e.runTable.issueToken(key, Grant{
		Token: token, Turn: view.Seq, Attempt: view.Attempt, principal: p.Name(),
		Delivery: view.Run.Turn.Assigned.Delivery + 1,
	})
}

// cascadePage is the number of child runs that cancelChildren reads at once.
const cascadePage = 256

// CancelRun ends a run as CANCELLED. With Cascade it also cancels all descendants of the run. If the run has already
// ended, the error is FAILED_PRECONDITION RUN_TERMINAL. A repeat with the same ID is no error, and it cancels the
// descendants again, so that a caller can finish an interrupted cascade.
func (e *Engine) CancelRun(ctx context.Context, req ControlRequest) (Answer, error) {
	answer, err := e.Apply(ctx, Request{RunRef: req.RunRef, ID: req.ID, Command: machine.Cancel{Note: req.Note}})
	if err != nil || !req.Cascade {
		return answer, err
	}
	key, err := e.Find(req.RunRef)
	if err != nil {
		return answer, err
	}
	return answer, e.cancelChildren(ctx, key, req.Principal, req.Note, 0)
}

// cancelChildren cancels all descendants of a run. It finds them by the index of parents.
func (e *Engine) cancelChildren(ctx context.Context, parent RunKey, by Principal, note string, depth int) error {
	if depth > machine.MaxDepth {
		return nil
	}
	filter := machine.RunFilter{Parent: parent.ID, Oldest: true}
	for after := ""; ; {
		children, next, err := e.store.ListRuns(ctx, parent.Namespace, filter, after, cascadePage)
		if err != nil {
			return fmt.Errorf("runtime: children of run %s: %w", parent.ID, err)
		}
		for _, child := range children {
			key := RunKey{Namespace: parent.Namespace, ID: child.RunID}
			if err := e.cancelChild(ctx, key, by, note); err != nil {
				return err
			}
			if err := e.cancelChildren(ctx, key, by, note, depth+1); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		after = next
	}
}

// cancelChild cancels one child run. It returns no error if the child has already ended.
func (e *Engine) cancelChild(ctx context.Context, key RunKey, by Principal, note string) error {
	_, err := e.apply(ctx, &operation{key: key, principal: by, command: machine.Cancel{Note: note}, internal: true})
	var refusal *machine.Error
	if errors.As(err, &refusal) && refusal.Reason == "RUN_TERMINAL" {
		return nil
	}
	return err
}

// The methods below are for the packages around the engine. Each of these packages declares an interface with the
// methods that it calls, so the engine imports none of them.

// ApplyInternal executes an input that the sidecar itself makes, without asking the policy. Its errors are those of
// [Engine.Apply].
func (e *Engine) ApplyInternal(ctx context.Context, key RunKey, command machine.Command) (Answer, error) {
	return e.apply(ctx, &operation{key: key, principal: Principal{Subject: OwnName}, internal: true, command: command})
}

// WithRunLock calls do while it holds the run's execution slot, so that no input of the run is executed at the same
// time. do must not apply an input of the same run, because it would wait for the slot forever. Errors: the error of
// do, or QUEUE_FULL.
func (e *Engine) WithRunLock(key RunKey, do func() error) error {
	entry, err := e.runTable.acquireWait(key)
	if err != nil {
		return err
	}
	defer e.runTable.release(entry, entry.state, entry.program)
	return do()
}

// Evict calls do while it holds the run's execution slot, and removes the cached state of the run afterwards. do may
// therefore change the run in the store.
func (e *Engine) Evict(key RunKey, do func() error) error {
	entry, err := e.runTable.acquireWait(key)
	if err != nil {
		return err
	}
	defer e.runTable.release(entry, nil, nil)
	return do()
}

// Current returns the newest state of a run and its compiled pack.
func (e *Engine) Current(ctx context.Context, key RunKey) (*machine.State, *packcache.Program, error) {
	s, err := e.Head(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	prog, err := e.programs.ProgramOf(ctx, key.Namespace, s)
	return s, prog, err
}

// Programs returns the cache of compiled packs. Safe for concurrent use.
func (e *Engine) Programs() *packcache.Cache { return e.programs }

// Turns returns the renderer of open turns. Safe for concurrent use.
func (e *Engine) Turns() *Renderer { return e.renderer }

// Terms returns the limits and defaults for new runs. The caller must not change the returned value.
func (e *Engine) Terms() *validate.Terms { return &e.terms }

// Admit checks that the caller has one of the scopes, and returns the number of the namespace of the call.
//
// Errors: NOT_FOUND NAMESPACE_NOT_FOUND, PERMISSION_DENIED SCOPE_MISSING.
func (e *Engine) Admit(call Call, scopes Scopes) (uint32, error) {
	ns, err := e.namespaceOf(call)
	if err != nil {
		return 0, err
	}
	return ns, PolicyError(policy.Require(call.Principal, scopes))
}

// FindReadable returns the key of a run, like [Engine.Find], if the caller has a scope for reading runs.
func (e *Engine) FindReadable(ref RunRef) (RunKey, error) {
	key, err := e.Find(ref)
	if err != nil {
		return key, err
	}
	return key, PolicyError(policy.Require(ref.Principal, policy.RunsRead|policy.RunsWrite))
}

// NamespaceNumbers returns the numbers of the configured namespaces, in no particular order.
func (e *Engine) NamespaceNumbers() []uint32 {
	return slices.Collect(maps.Values(e.cfg.Namespaces))
}

// DoInFlight calls do and counts the call as an input in flight, so that a drain waits for it. If do returns
// [machine.ErrIndeterminate], the engine stops accepting inputs, as after a commit with an unknown outcome.
func (e *Engine) DoInFlight(do func() error) error {
	if err := e.limiter.Acquire(0); err != nil {
		return err
	}
	defer e.limiter.Release()
	err := do()
	if errors.Is(err, machine.ErrIndeterminate) {
		e.limiter.Fail()
		return commitUnknown()
	}
	return err
}

// Accounts lists the operator's accounts of a namespace, see [budget.Ledger.List].
func (e *Engine) Accounts(call Call, prefix, after string, most int) ([]budget.View, bool, error) {
	ns, err := e.Admit(call, policy.RunsRead)
	if err != nil {
		return nil, false, err
	}
	views, more := e.cfg.Accounts.List(ns, prefix, after, most, e.cfg.Clock.Now())
	return views, more, nil
}

// AccountFigures returns the amounts in the accounts of all namespaces, for metrics.
func (e *Engine) AccountFigures() []budget.Figure { return e.cfg.Accounts.Figures(e.cfg.Clock.Now()) }

// History returns the reader of past states and records. Safe for concurrent use.
func (e *Engine) History() *history.Reader { return e.history }
