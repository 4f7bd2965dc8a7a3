package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/effects"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// The engine executes each input in five phases. Each line names what protects the phase.
//
//  1. queue: [runTable.acquire] gives the run's execution slot to one input at a time, first come, first
//     served. Phases 2 to 5 run while the input holds the slot, so no two inputs of one run overlap.
//  2. stamp: time, token and authority become part of the Input (stamp.go, authority.go). No lock.
//     After this phase the machine needs no more data from outside.
//  3. decide: rules.Step, a pure function, called through the ledger of accounts. It changes
//     neither the state nor anything outside it.
//  4. commit: Store.Commit returns after the sync. Before the commit no reader sees the new state,
//     after it all do ([runTable.committed]); in between, readers ask the store.
//  5. follow: the observers in Hooks.OnCommitLocked receive the commit in the order of the run.
//     Then the slot is released. Then timers and the observers in Hooks.OnCommit receive the
//     commit. The caller gets its answer last.

// operation is one input that the engine executes, as the caller sent it.
type operation struct {
	key       RunKey
	principal Principal
	id        string
	// implicitID reports whether the engine derived the idempotency id from the execution of the turn because the
	// caller sent none.
	implicitID bool
	token      string
	// holder is the worker that makes the request under its lease. It is nil if a caller or the engine makes the request.
	holder  LeaseHolder
	command machine.Command
	// start is the compiled pack, if the input starts a run. It is nil for all other inputs.
	start *packcache.Program
	// hash is the hash of the request body, if the input starts a run. The body hashes of other inputs are computed later,
	// by [execution.stamp].
	hash [32]byte
	// createdRun reports whether the operation has created its run. It is set after the commit.
	createdRun bool
	// internal reports whether the engine itself made the input, for example for a timer. These inputs are not checked
	// by the policy.
	internal bool
}

// maxLoad returns how many inputs may be in flight when this input is admitted, as a multiple of the configured limit.
// 0 means that the input is always admitted, because other limits bound internal inputs and inputs of workers. Inputs
// with a turn token and cancellations get a higher multiple than new work. It is finite, because the token is not
// verified yet.
func (c *operation) maxLoad() int64 {
	_, ends := c.command.(machine.Cancel)
	switch {
	case c.internal || c.holder != nil:
		return 0
	case ends || c.token != "":
		return 4
	}
	return 1
}

// Apply executes one input: it waits for the run's execution slot, loads the state, asks the policy and the machine,
// commits, and notifies the observers.
//
// ctx bounds only the wait for the slot and, after the commit, the reading of final artifacts. An accepted input is executed even if the
// caller has gone. The caller can repeat it with the same ID to get the result.
//
// Errors are *[machine.Error], the error of ctx, or a read error of the store. An Answer may come together with an error (STEP_MISMATCH):
// then the input was committed, and the error says why it failed.
func (e *Engine) Apply(ctx context.Context, req Request) (Answer, error) {
	key, err := e.Find(req.RunRef)
	if err != nil {
		return Answer{}, err
	}
	if req.Command, err = validate.Check(req.ID, req.Command); err != nil {
		return Answer{}, err
	}
	answer, err := e.apply(ctx, &operation{
		key: key, principal: req.Principal, id: req.ID, token: req.TurnToken,
		holder: req.Worker, command: req.Command,
	})
	return e.addArtifacts(ctx, key.Namespace, &req.Principal, answer, err)
}

// apply waits for the run's execution slot and executes the operation in the caller's goroutine. If ctx ends during the wait, or if the
// outcome of a commit becomes unknown, apply returns an error and another goroutine executes the operation.
func (e *Engine) apply(ctx context.Context, c *operation) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	if err := e.limiter.Acquire(c.maxLoad()); err != nil {
		return Answer{}, err
	}
	entry, w, err := e.runTable.acquire(c.key)
	if err != nil {
		e.limiter.Release()
		return Answer{}, err
	}
	if w == nil {
		return e.execute(ctx, entry, c)
	}
	select {
	case <-w.granted:
		waiters.Put(w)
		return e.execute(ctx, entry, c)
	case <-ctx.Done():
		go e.applyDetached(ctx, entry, w, c)
		return Answer{}, ctx.Err()
	case <-e.limiter.Failed():
		go e.applyDetached(ctx, entry, w, c)
		return Answer{}, commitUnknown()
	}
}

// applyDetached executes an operation after its caller has gone, and drops the answer.
func (e *Engine) applyDetached(ctx context.Context, entry *runEntry, w *waiter, c *operation) {
	<-w.granted
	waiters.Put(w)
	_, _ = e.execute(ctx, entry, c)
}

// execute executes one operation. The caller holds the run's execution slot, and execute releases it.
func (e *Engine) execute(ctx context.Context, entry *runEntry, c *operation) (Answer, error) {
	t := &execution{e: e, op: c, runEntry: entry, state: entry.state, program: entry.program}
	defer e.finish(entry, t)
	answer, err := t.execute(context.WithoutCancel(ctx))
	t.ended = true
	return answer, err
}

// finish releases the execution slot and notifies the observers. It puts the new state in the run table, so that the
// next input finds it. If the operation panicked, no state is kept in the run table.
func (e *Engine) finish(entry *runEntry, t *execution) {
	if !t.ended {
		t.state = nil
	}
	t.reservation.Close(t.batch != nil)
	var done *Commit
	if t.batch != nil {
		done = t.commitEvent()
		notify(e.hooks.OnCommitLocked, done)
	}
	e.runTable.release(entry, t.state, t.program)
	if done != nil {
		e.timers.onCommit(t.batch)
		notify(e.hooks.OnCommit, done)
	}
	e.limiter.Release()
}

func notify(followers []Observer, c *Commit) {
	for _, f := range followers {
		f.OnCommit(c)
	}
}

// execution is one operation while it is executed. It holds the execution slot of its run.
type execution struct {
	e  *Engine
	op *operation
	// runEntry is the run's entry in the run table.
	runEntry *runEntry
	// state is the newest state of the run. It is nil if it is not loaded, or if it was dropped after a failed commit.
	// program is the compiled pack of the run.
	state   *machine.State
	program *packcache.Program
	input   machine.Input
	// grant is the grant of the request's turn token: the right to execute one attempt of a turn. It is zero if the
	// request has no valid token.
	grant Grant
	// batch is the batch that was committed, and entry is the journal entry of this commit. They are nil and zero if
	// nothing was committed.
	batch *machine.Batch
	entry machine.Entry
	// older are the business keys that earlier versions of the program derived from the input. A business key identifies
	// an effect of a tool, so that the effect happens once.
	older effects.LegacyKeys
	// reservation is the amount that the input has reserved in the operator's accounts until its commit.
	reservation budget.Reservation
	// notified is the commit in the form in which the observers receive it.
	notified Commit
	ended    bool // ended reports whether execute returned without a panic
}

// execute loads the run, asks the policy, makes the machine's input, decides and commits. These are phases 2 to 4 of an
// input, as described at the top of this file.
func (t *execution) execute(ctx context.Context) (Answer, error) {
	if err := t.load(ctx); err != nil {
		return Answer{}, err
	}
	outside, err := t.authorize()
	if err == nil {
		err = t.prepare(ctx)
	}
	// The input is stamped even if authorize returned an error, because refuse needs the id and the hash of the input
	// to find an earlier input with the same id.
	t.stamp(outside)
	if err != nil {
		return t.refuse(ctx, err)
	}
	return t.decideAndCommit(ctx)
}

// decideAndCommit computes the batch of an input and commits it. These are phases 3 and 4 of an input; phase 2 (stamp)
// must have run.
func (t *execution) decideAndCommit(ctx context.Context) (Answer, error) {
	result, err := t.runRules(ctx)
	switch {
	case err != nil:
		return t.refuse(ctx, err)
	case result.Batch == nil:
		return t.unchanged(ctx, result)
	case result.Batch.NoChange():
		if answer, found, err := t.repeat(ctx); found || err != nil {
			return answer, err
		}
	}
	return t.commit(ctx, result)
}

// runRules calls the machine, which is a pure function, with the input. If the result depends on stored data that the input does not
// contain, runRules adds this data and calls the machine again, until no data is missing. The data can be the owner of a business key, or
// payloads of other steps. Last, runRules adds the results of evals (checks of the output) and calls the machine with them.
func (t *execution) runRules(ctx context.Context) (machine.Result, error) {
	t.input.Evals = nil
	var evalState *machine.State
	for {
		t.reservation.Close(false)
		result, hold, err := t.e.cfg.Accounts.Decide(t.program.Graph, t.state, t.input)
		t.reservation = hold
		if err != nil || result.Batch == nil {
			return result, err
		}
		if evalState != nil && (evalState.Status.Terminal() != result.State.Status.Terminal() || evalState.VisitSeq != result.State.VisitSeq) {
			// The operator's accounts changed after the evals ran, so the input now has another result. The evals must run again
			// for this result.
			evalState, t.input.Evals = nil, nil
			continue
		}
		repeat := false
		if len(result.Batch.Wanted) > 0 {
			repeat, err = t.e.effects.Stamp(ctx, t.op.key.Namespace, &t.input, result.Batch, t.older)
		}
		if missing := rules.Unfilled(result.Batch); len(missing) > 0 && err == nil && !repeat {
			repeat, err = true, t.e.effects.LoadPayloads(ctx, t.op.key, &t.input, result.Batch, missing)
		}
		if err == nil && !repeat && evalState == nil {
			evalState = result.State
			repeat = t.dueEvals(ctx, &result)
		}
		if err != nil || !repeat {
			return result, err
		}
	}
}

// load reads the state and the compiled pack of the run from the store, unless they are cached.
func (t *execution) load(ctx context.Context) error {
	if t.op.start != nil {
		t.program = t.op.start
		return nil
	}
	if t.state == nil {
		state, err := t.e.store.Head(ctx, t.op.key.Namespace, t.op.key.ID)
		if errors.Is(err, machine.ErrNoRun) {
			return t.missingRunError(err)
		}
		if err != nil {
			return fmt.Errorf("runtime: load run %s: %w", t.op.key.ID, err)
		}
		t.state = state
	}
	if t.program == nil {
		prog, err := t.e.programs.ProgramOf(ctx, t.op.key.Namespace, t.state)
		if err != nil {
			return err
		}
		t.program = prog
	}
	return nil
}

// missingRunError returns the error for an input to a run that does not exist. For the answer to a step it is errUnknownRun, if the policy
// allows the answer.
func (t *execution) missingRunError(cause error) error {
	if _, ok := t.op.command.(machine.ResolveStep); !ok {
		return history.NotFoundError(cause)
	}
	if _, err := t.decide(policy.Ask{Act: policy.Resolve}); err != nil {
		return err
	}
	return errUnknownRun
}

// errUnknownRun makes Engine.ResolveStep return the disposition IgnoredUnknownRun instead of an error.
var errUnknownRun = errors.New("step of an unknown run")

// commit stores the batch and then publishes its state as the newest state of the run.
func (t *execution) commit(ctx context.Context, result machine.Result) (Answer, error) {
	t.e.runTable.beginCommit(t.runEntry)
	t.e.runs.BeginCommit(t.state, result.State)
	done, err := t.e.store.Commit(ctx, result.Batch)
	t.op.createdRun = t.e.runs.EndCommit(t.state, result.State, err == nil)
	if errors.Is(err, machine.ErrEffectTaken) {
		return t.decideAndCommit(ctx) // another run has taken the business key in the meantime, so the input must be decided with that fact
	}
	if err != nil {
		return t.commitError(ctx, err)
	}
	before := t.state
	// The state is not published yet, so only this goroutine has it and may change it.
	state := result.State
	state.PrevHash = done.Hash
	t.state, t.batch = state, result.Batch
	t.e.runTable.committed(t.runEntry, state)
	t.entry = machine.Entry{
		RunID: state.RunID, Cursor: done.Cursor, First: result.Batch.Prev + 1,
		PrevHash: done.PrevHash, Hash: done.Hash, Input: result.Batch.Input, Records: result.Batch.Records,
	}
	answer := Answer{
		RunID: state.RunID, State: state, Entry: t.entry, Disposition: result.Disposition, Graph: t.program.Graph,
	}
	answer.Turn = t.turnAfter(before)
	t.countRequests()
	if err := t.addRecordedEntry(ctx, &answer); err != nil {
		return Answer{}, err
	}
	return t.withSteps(ctx, answer, result)
}

// commitError translates a failed commit into the error for the caller. In every case the cached state of the run is dropped. If it is not
// known whether the batch was stored, the engine also accepts no further inputs.
func (t *execution) commitError(ctx context.Context, err error) (Answer, error) {
	before := t.state
	t.state = nil
	var refusal *machine.Error
	switch {
	case errors.Is(err, machine.ErrConsumed):
		t.state = before // refuse may need the state
		answer, err := t.refuse(ctx, err)
		t.state = nil
		return answer, err
	case errors.As(err, &refusal):
		return Answer{}, err
	case errors.Is(err, machine.ErrSeqConflict):
		return Answer{}, &machine.Error{
			Code: machine.CodeInternal, Reason: "SEQ_CONFLICT",
			Message: fmt.Sprintf("run %s changed outside its queue: %v", t.op.key.ID, err),
		}
	}
	t.e.limiter.Fail()
	return Answer{}, commitUnknown()
}

// unchanged returns the answer to an input that made no change. If the id was used before, it returns the first answer.
func (t *execution) unchanged(ctx context.Context, result machine.Result) (Answer, error) {
	if answer, found, err := t.repeat(ctx); found || err != nil {
		return answer, err
	}
	answer := Answer{RunID: t.state.RunID, State: t.state, Disposition: result.Disposition, Graph: t.program.Graph}
	if err := t.addRecordedEntry(ctx, &answer); err != nil {
		return Answer{}, err
	}
	answer.Turn = t.openTurn(t.program.Graph, t.state)
	t.countRequests()
	return t.withSteps(ctx, answer, result)
}

// addRecordedEntry completes the answer to a repeated ResolveStep: it sets the entry that recorded the first answer to the
// step.
func (t *execution) addRecordedEntry(ctx context.Context, answer *Answer) error {
	cmd, ok := t.op.command.(machine.ResolveStep)
	if !ok || answer.Disposition != machine.IgnoredDuplicate {
		return nil
	}
	for i := range answer.State.Steps {
		step := &answer.State.Steps[i]
		if step.Step != cmd.Step {
			continue
		}
		entry, err := t.e.store.Entry(ctx, t.op.key.Namespace, t.op.key.ID, step.AnswerSeq)
		if err != nil {
			return fmt.Errorf("runtime: read record %d of run %s: %w", step.AnswerSeq, t.op.key.ID, err)
		}
		answer.Entry = entry
	}
	return nil
}

// Idempotency ids are checked late: the engine looks up an id only if the input was refused or changed nothing, or if the commit found
// that the id is used. The caller cannot see this: an input with a used id is answered as a repeat before any other error (semantics §4).

// refuse returns the error reason for a refused input. If the input is a repeat of an earlier input, refuse returns the
// answer to the earlier input instead.
func (t *execution) refuse(ctx context.Context, reason error) (Answer, error) {
	answer, found, err := t.repeat(ctx)
	if found || err != nil {
		return answer, err
	}
	return Answer{}, reason
}

// repeat answers an input whose id was used before. If the body is the same, it returns the first answer, otherwise the error
// ALREADY_EXISTS. It returns false if the id was not used before. It also returns false if the engine derived the id
// from the turn and the body differs; only for an answer to a model call, a different body is an error even then.
func (t *execution) repeat(ctx context.Context) (Answer, bool, error) {
	if t.input.ID == "" {
		return Answer{}, false, nil
	}
	key := machine.Dedupe{
		Scope: machine.PerRun, Kind: machine.KindOf(t.op.command), RunID: t.op.key.ID, ID: t.input.ID,
	}
	if t.op.start != nil {
		key.Scope, key.Principal, key.RunID = machine.PerPrincipal, t.op.principal.Name(), ""
	}
	row, found, err := t.e.store.FindRequestID(ctx, t.op.key.Namespace, key)
	switch {
	case err != nil:
		return Answer{}, false, fmt.Errorf("runtime: look up id %q: %w", t.input.ID, err)
	case !found:
		return Answer{}, false, nil
	case row.BodyHash == t.input.BodyHash:
		answer, err := t.firstAnswer(ctx, row)
		return answer, true, err
	case t.op.implicitID && key.Kind == machine.CmdAnswerModel:
		return Answer{}, false, &machine.Error{
			Code: machine.CodeAlreadyExists, Reason: "ANSWER_CONFLICT", Field: "outcome", Seq: row.First,
			Message: "another answer is recorded for this attempt",
		}
	case t.op.implicitID:
		// The engine derived the id from the execution of the turn, and this execution has sent another body before. So
		// this input is not a repeat: the caller gets
		// the error of the refused input, which says that the input is stale.
		return Answer{}, false, nil
	}
	return Answer{}, false, &machine.Error{
		Code: machine.CodeAlreadyExists, Reason: "ID_REUSED", Field: validate.IDField(key.Kind), Seq: row.First,
		Message: fmt.Sprintf("id %q was used for another request", t.input.ID),
	}
}

// firstAnswer returns the answer to the first input with this id. It computes the answer from the stored entry.
func (t *execution) firstAnswer(ctx context.Context, row machine.Dedupe) (Answer, error) {
	key := RunKey{Namespace: t.op.key.Namespace, ID: row.RunID}
	entry, err := t.e.store.Entry(ctx, key.Namespace, key.ID, row.First)
	if err != nil {
		return Answer{}, fmt.Errorf("runtime: read record %d of run %s: %w", row.First, key.ID, err)
	}
	head, err := t.e.Head(ctx, key)
	if err != nil {
		return Answer{}, err
	}
	prog, err := t.e.programs.ProgramOf(ctx, key.Namespace, head)
	if err != nil {
		return Answer{}, err
	}
	result, err := t.e.history.Result(ctx, head, prog.Graph, &entry)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{
		RunID: key.ID, State: result.State, Entry: entry, Duplicate: true, Disposition: result.Disposition,
		Turn: t.openTurn(prog.Graph, result.State), Graph: prog.Graph,
	}
	if _, asked := entry.Input.Command.(machine.RequestSteps); asked {
		// The answer contains the steps that the first input requested, with the outcomes that they have now.
		answer.State = head
		if result.Steps, err = t.stepsNow(ctx, key, head, result.Steps); err != nil {
			return Answer{}, err
		}
	}
	if err := t.addRecordedEntry(ctx, &answer); err != nil {
		return Answer{}, err
	}
	return t.withSteps(ctx, answer, result)
}

// stepsNow returns the present outcomes of the steps that an earlier input requested. If the caller itself may make one
// of these calls, stepsNow first checks the request like a new one. The check is needed because the caller may have
// lost its right, or the run or the turn may be over.
func (t *execution) stepsNow(ctx context.Context, key RunKey, head *machine.State, first []machine.StepOutcome) ([]machine.StepOutcome, error) {
	now := slices.Clone(first)
	var out []int
	for i := range now {
		if now[i].Step == 0 {
			continue
		}
		step, err := t.e.history.FindStep(ctx, key, head, now[i].Step)
		if err != nil {
			return nil, err
		}
		now[i] = rules.OutcomeOf(step)
		now[i].Replayed = first[i].Replayed
		if step.Dispatchable() {
			out = append(out, i)
		}
	}
	if len(out) == 0 || t.op.holder != nil {
		return now, nil
	}
	return now, t.rerequest(out, now)
}

// rerequest checks the requests at the given indexes like new requests, without applying them.
func (t *execution) rerequest(places []int, outcomes []machine.StepOutcome) error {
	if _, err := t.authorize(); err != nil {
		return err
	}
	asked := t.input.Command.(machine.RequestSteps)
	again := asked
	again.Requests = nil
	for _, i := range places {
		request := asked.Requests[i]
		if request.Call == nil {
			request.Key = outcomes[i].Key
		}
		again.Requests = append(again.Requests, request)
	}
	in := t.input
	in.ID, in.BodyHash, in.Command = "", [32]byte{}, again
	result, err := rules.Step(t.program.Graph, t.state, in)
	if err != nil {
		return err
	}
	return result.Refused
}
