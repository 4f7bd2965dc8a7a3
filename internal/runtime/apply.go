package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/effects"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// The phases of an input, in order. Each line names what protects the phase.
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

// operation is one input while the engine executes it.
type operation struct {
	key       RunKey
	principal Principal
	id        string
	// implicitID reports whether the idempotency id was derived from the execution of the turn rather than
	// chosen by the caller.
	implicitID bool
	token      string
	// holder is the worker that holds the lease with this token. It is nil if the token was given to a caller.
	holder  LeaseHolder
	command machine.Command
	// start is the compiled pack of a run that begins; nil for all other inputs.
	start *packcache.Program
	// hash is the body hash if the input starts a run. The hashes of other inputs are computed in the
	// stamp phase.
	hash [32]byte
	// createdRun reports whether the operation has created its run.
	createdRun bool
	// internal reports whether the engine itself made the input (a timer or a cascade). The policy does not check these inputs.
	internal bool
}

// maxLoad is the number of inputs in flight, as a multiple of the configured limit, up to which this input is still admitted. Zero means
// that this input is never rejected. It is returned for internal inputs and inputs under a worker's lease, because other limits already
// bound them. Inputs with a turn token and cancellations are admitted before new work, but they are bounded too: the token is not yet
// verified here, so any caller could send an invalid one.
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

// Apply executes one input: it waits for the run's execution slot, loads the state, asks the policy and the machine, commits, and notifies the
// observers.
//
// ctx bounds only the wait for the run's execution slot. An input that was accepted is executed even if the caller has gone; the caller can repeat
// it with the same ID to get the result.
//
// Errors are *[machine.Error] or the error of ctx. An Answer may come together with an error (STEP_MISMATCH): then the input was
// committed, and the error says why it failed.
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
	return e.concluded(ctx, key.Namespace, &req.Principal, answer, err)
}

// apply waits for the run's execution slot and executes the operation in the caller's goroutine. If the caller gives
// up, another goroutine executes it.
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

// execute executes one operation while the run's execution slot is held, then releases the slot.
func (e *Engine) execute(ctx context.Context, entry *runEntry, c *operation) (Answer, error) {
	t := &execution{e: e, op: c, runEntry: entry, state: entry.state, program: entry.program}
	defer e.finish(entry, t)
	answer, err := t.execute(context.WithoutCancel(ctx))
	t.ended = true
	return answer, err
}

// finish releases the execution slot: it puts the new state in the run table, so that the next input finds it, and notifies
// the observers. If the operation panicked, no state is kept in the run table.
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

// execution is the execution of one operation that holds the execution slot of its run.
type execution struct {
	e  *Engine
	op *operation
	// runEntry is the entry of the run in the run table. This execution holds the run's execution slot.
	runEntry *runEntry
	// state and program belong to the run. state is nil if it is not loaded, or if it was dropped after a failed commit.
	state   *machine.State
	program *packcache.Program
	input   machine.Input
	// grant is the grant that belongs to the turn token of the request. It is the zero value if the
	// request has no valid token.
	grant Grant
	// batch is the committed batch and entry is its journal entry. If the execution made no commit,
	// batch is nil and entry is the zero value.
	batch *machine.Batch
	entry machine.Entry
	// older are the business keys that earlier versions of the program derived from the input.
	older effects.Older
	// reservation is what the input has reserved in the operator's accounts.
	reservation budget.Reservation
	// notified is the commit as the observers receive it.
	notified Commit
	ended    bool // ended reports whether execute returned without a panic
}

// execute runs phases 2 to 4: it loads the run, asks the policy, stamps the input, then decides and commits.
func (t *execution) execute(ctx context.Context) (Answer, error) {
	if err := t.load(ctx); err != nil {
		return Answer{}, err
	}
	outside, err := t.authorize()
	if err == nil {
		err = t.prepare(ctx)
	}
	t.stamp(outside)
	if err != nil {
		return t.refuse(ctx, err)
	}
	return t.decideAndCommit(ctx)
}

// decideAndCommit runs phases 3 and 4. The input must be stamped.
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

// runRules calls the machine with the input. If the result depends on stored data that the input does
// not contain yet (a business key of another step, or payloads of other steps), runRules adds this data
// to the input and calls the machine again.
func (t *execution) runRules(ctx context.Context) (machine.Result, error) {
	for {
		t.reservation.Close(false)
		result, hold, err := t.e.cfg.Accounts.Decide(t.program.Graph, t.state, t.input)
		t.reservation = hold
		if err != nil || result.Batch == nil {
			return result, err
		}
		again, err := t.e.effects.Stamp(ctx, t.op.key.Namespace, &t.input, result.Batch, t.older)
		if err == nil && !again {
			again, err = t.e.effects.LoadPayloads(ctx, t.op.key, &t.input, result.Batch)
		}
		if err != nil || !again {
			return result, err
		}
	}
}

// load reads the run's state and program unless they are cached.
func (t *execution) load(ctx context.Context) error {
	if t.op.start != nil {
		t.program = t.op.start
		return nil
	}
	if t.state == nil {
		state, err := t.e.store.Head(ctx, t.op.key.Namespace, t.op.key.ID)
		if errors.Is(err, machine.ErrNoRun) {
			return t.missing(err)
		}
		if err != nil {
			return fmt.Errorf("runtime: load run %s: %w", t.op.key.ID, err)
		}
		t.state = state
	}
	if t.program == nil {
		prog, err := t.e.programs.Of(ctx, t.op.key.Namespace, t.state)
		if err != nil {
			return err
		}
		t.program = prog
	}
	return nil
}

// missing returns the error for a run that does not exist.
func (t *execution) missing(cause error) error {
	if _, ok := t.op.command.(machine.ResolveStep); !ok {
		return history.Absent(cause)
	}
	if _, err := t.decide(policy.Ask{Act: policy.Resolve}); err != nil {
		return err
	}
	return errUnknownRun
}

// errUnknownRun makes ResolveStep answer IGNORED_UNKNOWN_RUN.
var errUnknownRun = errors.New("step of an unknown run")

// commit stores the batch and then makes the batch's state the current state of the run.
func (t *execution) commit(ctx context.Context, result machine.Result) (Answer, error) {
	t.e.runTable.committing(t.runEntry)
	t.e.runs.Committing(t.state, result.State)
	done, err := t.e.store.Commit(ctx, result.Batch)
	t.op.createdRun = t.e.runs.Committed(t.state, result.State, err == nil)
	if errors.Is(err, machine.ErrEffectTaken) {
		return t.decideAndCommit(ctx) // meanwhile another run has used the business key; this time it is stamped
	}
	if err != nil {
		return t.uncommitted(ctx, err)
	}
	before := t.state
	// No other goroutine has the new state until it is published.
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
	t.count()
	if err := t.recorded(ctx, &answer); err != nil {
		return Answer{}, err
	}
	return t.withSteps(ctx, answer, result)
}

// uncommitted translates a failed commit into the error of the caller. In every case the cached state is
// dropped.
func (t *execution) uncommitted(ctx context.Context, err error) (Answer, error) {
	before := t.state
	t.state = nil
	var refusal *machine.Error
	switch {
	case errors.Is(err, machine.ErrConsumed):
		t.state = before
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

// unchanged returns the answer to an input that made no change. The answer is a duplicate if the id was used before.
func (t *execution) unchanged(ctx context.Context, result machine.Result) (Answer, error) {
	if answer, found, err := t.repeat(ctx); found || err != nil {
		return answer, err
	}
	answer := Answer{RunID: t.state.RunID, State: t.state, Disposition: result.Disposition, Graph: t.program.Graph}
	if err := t.recorded(ctx, &answer); err != nil {
		return Answer{}, err
	}
	answer.Turn = t.openTurn(t.program.Graph, t.state)
	t.count()
	return t.withSteps(ctx, answer, result)
}

// recorded handles a repeated answer to a step: it sets the entry that recorded the first answer.
func (t *execution) recorded(ctx context.Context, answer *Answer) error {
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
