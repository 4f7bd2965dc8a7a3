package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/effects"
	"github.com/pawl-dev/pawl/internal/runtime/gate"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// The phases of an input, each with what guards it and what comes before it:
//
//  1. queue: [runTable.acquire] gives the run's turn in the order of asking. All below
//     happens in that turn, so nothing of one run happens twice at once.
//  2. stamp: time, token and authority become part of the Input (stamp.go, authority.go).
//     No lock; the machine asks for nothing after it.
//  3. decide: rules.Step, pure, through the ledger of accounts. It changes neither the state nor anything outside it.
//  4. commit: Store.Commit returns after the sync. Before it nothing is shown, after it
//     the new state is ([runTable.committed]); in between only the store knows.
//  5. follow: followers in the turn hear of the commit in the run's order; then the turn
//     is given back; then timers, watchers and effects hear of it. The caller is answered
//     last.

// operation is one input on its way through the engine.
type operation struct {
	key       RunKey
	principal Principal
	id        string
	// implicitID: id names the execution of a turn, not a wish of the caller's.
	implicitID bool
	token      string
	// holder is the one whose lease the token is; nil: the token is a caller's.
	holder  LeaseHolder
	command machine.Command
	// start is the program of a run that begins; nil for all other inputs.
	start *packcache.Program
	// hash is the body hash of a start; other hashes are made on the way.
	hash [32]byte
	// createdRun: it has made its run.
	createdRun bool
	// internal: the engine's own input (timers, cascades); no authority is asked.
	internal bool
}

// maxLoad is by how many times the limit of inputs this one may find taken; 0 = it enters
// always, as the sidecar's own and what comes by a worker's lease do: both are bounded by
// what was given out. What shows a token or ends a run goes before new work, but has a
// bound too: here nobody knows yet whether the token is one, and anybody can send texts.
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

// Apply takes one input through the way of a transition: the run's queue, its
// state, the policy, the machine, the commit, the publication.
//
// ctx bounds only the waiting. An input that was accepted takes its course when
// the caller is gone; repeat it with the same ID to learn what became of it.
//
// Errors are *[machine.Error], or ctx's own. An answer may come with an error
// (STEP_MISMATCH): then the input was committed, and the error says what it met.
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

// apply waits for the run's turn and makes the change in the caller's own
// goroutine. A caller that gives up leaves the change to another one.
func (e *Engine) apply(ctx context.Context, c *operation) (Answer, error) {
	if err := ctx.Err(); err != nil {
		return Answer{}, err
	}
	if err := e.limiter.Acquire(c.maxLoad()); err != nil {
		return Answer{}, err
	}
	sl, w, err := e.runTable.acquire(c.key)
	if err != nil {
		e.limiter.Release()
		return Answer{}, err
	}
	if w == nil {
		return e.execute(ctx, sl, c)
	}
	select {
	case <-w.granted:
		waiters.Put(w)
		return e.execute(ctx, sl, c)
	case <-ctx.Done():
		go e.applyDetached(ctx, sl, w, c)
		return Answer{}, ctx.Err()
	case <-e.limiter.Failed():
		go e.applyDetached(ctx, sl, w, c)
		return Answer{}, gate.CommitUnknown()
	}
}

// applyDetached makes a change whose caller is gone; nobody hears of its answer.
func (e *Engine) applyDetached(ctx context.Context, sl *runEntry, w *waiter, c *operation) {
	<-w.granted
	waiters.Put(w)
	_, _ = e.execute(ctx, sl, c)
}

// execute makes one change while the run's turn is held and gives it back.
func (e *Engine) execute(ctx context.Context, sl *runEntry, c *operation) (Answer, error) {
	t := &execution{e: e, op: c, runEntry: sl, state: sl.state, program: sl.program}
	defer e.finish(sl, t)
	answer, err := t.execute(context.WithoutCancel(ctx))
	t.ended = true
	return answer, err
}

// finish ends the turn: the next input finds the new state, and who waits
// for records hears of them. A change that panicked leaves no state behind.
func (e *Engine) finish(sl *runEntry, t *execution) {
	if !t.ended {
		t.state = nil
	}
	t.reservation.Close(t.batch != nil)
	var done *Commit
	if t.batch != nil {
		done = t.commitEvent()
		notify(e.hooks.OnCommitLocked, done)
	}
	e.runTable.release(sl, t.state, t.program)
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

// execution is one change in its run's turn.
type execution struct {
	e  *Engine
	op *operation
	// runEntry is the run's place, whose turn it is.
	runEntry *runEntry
	// state and program are the run's; nil state = not loaded, or forgotten after
	// a commit that failed.
	state   *machine.State
	program *packcache.Program
	input   machine.Input
	// grant is the token that the request was granted by, if any.
	grant Grant
	// batch was committed, as entry; nil and zero if nothing was.
	batch *machine.Batch
	entry machine.Entry
	older effects.Older // the input's business keys as earlier programs made them
	// reservation is what the input has changed of the operator's accounts.
	reservation budget.Reservation
	// notified is what followers are told of the commit.
	notified Commit
	ended    bool // run returned, it did not panic
}

// execute is stops 2 to 4: load, decide, step, commit.
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

// decideAndCommit is what follows the stamps: step, commit.
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

// runRules decides, and decides over again while the store knows of what was not stamped: a
// business key that another step has, payloads of steps about others.
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

// load brings the run's state and program unless they are cached.
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

// missing is the answer for a run that is not there.
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

// commit stores the batch and takes its state over.
func (t *execution) commit(ctx context.Context, result machine.Result) (Answer, error) {
	t.e.runTable.committing(t.runEntry)
	t.e.runs.Committing(t.state, result.State)
	done, err := t.e.store.Commit(ctx, result.Batch)
	t.op.createdRun = t.e.runs.Committed(t.state, result.State, err == nil)
	if errors.Is(err, machine.ErrEffectTaken) {
		return t.decideAndCommit(ctx) // somebody was faster: it is stamped now
	}
	if err != nil {
		return t.uncommitted(ctx, err)
	}
	before := t.state
	// The new state is nobody else's until it is shown.
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

// uncommitted says what a failed commit means. Whatever it means, the cached
// state is forgotten.
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
	return Answer{}, gate.CommitUnknown()
}

// unchanged answers an input that had no effect: a repeat if its id says so.
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

// recorded gives an answer to a step that was taken before what was recorded
// then.
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
