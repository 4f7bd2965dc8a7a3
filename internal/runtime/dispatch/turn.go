package dispatch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
)

// maxLost bounds the lost deliveries of a turn: those whose worker lost its connection without announcing a shutdown.
// At the bound the run ends, because the turn probably crashes its workers (docs/reference/semantics.md §5).
const maxLost = 10

// workRetry is the delay before the dispatcher repeats an operation that failed because the store was unavailable or
// too many inputs of a run waited.
const workRetry = time.Second

// turnLease is one delivery of a turn: the turn is assigned to a worker, which may execute it. The mutex of the shard
// guards the fields that change.
type turnLease struct {
	run      string
	worker   *Worker
	turn     uint64
	attempt  int
	delivery int
	token    string
	// at is the time when the turn was assigned, in Unix nanoseconds.
	at int64
	// outputAt is the time of the last output of this delivery, in Unix nanoseconds. 0 means that there was no output.
	outputAt int64
	duration time.Duration
	deadline int64
	timer    *timer
	// requests is the number of steps that this execution of the turn has requested.
	requests int
	// sent reports whether the turn was sent to the worker, and over whether the lease has ended. served reports
	// whether the worker serves (executes alone) the run. The lease then uses no capacity of the worker.
	sent, over, served bool
	// missedAnswers are the steps that were answered after the turn was assigned and before it was sent. Their answers
	// are sent after the turn.
	missedAnswers []uint32
}

func (l *turnLease) snapshot() TurnLease {
	return TurnLease{
		RunID: l.run, Turn: l.turn, Attempt: l.attempt, Delivery: l.delivery, Token: l.token,
		Deadline: l.deadline, Duration: l.duration,
	}
}

func (l *turnLease) assignment() *machine.Assignment {
	return &machine.Assignment{Worker: l.worker.name.id, Delivery: l.delivery, At: l.at}
}

// leaseTurn assigns the open turn of a run to a worker and sends it. served reports whether the worker serves (executes
// alone) the run.
func (sp *namespaceShard) leaseTurn(w *Worker, run *workRun, served bool) {
	turn := run.turn
	turn.deliveries++
	lease := &turnLease{
		run: run.id, worker: w, turn: turn.seq, attempt: turn.attempt, delivery: turn.deliveries,
		token: sp.dispatcher.cfg.IDs.Token(), at: sp.now(), served: served,
	}
	turn.lease, w.turns[lease.token] = lease, lease
	if served && run.serving.asking > 0 {
		run.serving.given = append(run.serving.given, lease)
		return
	}
	go sp.deliverTurn(lease)
}

func (sp *namespaceShard) now() int64 { return sp.dispatcher.cfg.Clock.Now().UnixNano() }

// deliverTurn renders a turn and sends it to its worker. If the lease has ended in the meantime, the turn is not sent. If the turn is not
// open any more or cannot be rendered, deliverTurn ends the lease.
func (sp *namespaceShard) deliverTurn(lease *turnLease) {
	view, g, err := sp.openTurn(context.Background(), lease)
	if err != nil {
		sp.undelivered(lease, err)
		return
	}
	sp.mu.Lock() // Holding reads the deadline of a turn that is not sent yet.
	lease.duration = cmp.Or(g.Lease, sp.dispatcher.cfg.Lease)
	lease.deadline = sp.now() + int64(lease.duration)
	sp.mu.Unlock()
	view.Token = lease.token
	queue, err := lease.worker.sink.PrepareTurn(TurnDelivery{
		TurnLease: lease.snapshot(), View: view, Traceparent: trace.Turn(view.Run, lease.turn, lease.attempt),
	})
	if err != nil {
		sp.undelivered(lease, err)
		return
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if lease.over {
		return
	}
	lease.sent = true
	lease.timer = sp.dispatcher.timers.set(lease.duration, func() { sp.expire(lease) })
	queue()
	if run := sp.runs[lease.run]; run != nil && run.turn != nil && run.turn.lease == lease {
		run.turn.assigned = true
		lease.worker.counts.countTaken(&run.turn.class)
	}
	sp.dispatcher.cfg.OnVolatileChange(sp.key(lease.run))
	if late := lease.missedAnswers; late != nil {
		go sp.sendAnswers(lease, late)
	}
}

var errNotOpen = errors.New("the turn is not open any more")

// openTurn reads and renders the turn that was assigned.
func (sp *namespaceShard) openTurn(ctx context.Context, lease *turnLease) (runtime.TurnView, *machine.Graph, error) {
	key := sp.key(lease.run)
	s, prog, err := sp.dispatcher.cfg.Engine.Current(ctx, key)
	if err != nil {
		return runtime.TurnView{}, nil, err
	}
	if !rules.Executable(prog.Graph, s) || s.Turn.Seq != lease.turn || s.Turn.Attempt != lease.attempt {
		return runtime.TurnView{}, nil, errNotOpen
	}
	view, err := sp.dispatcher.cfg.Turns.Turn(ctx, key, prog, s)
	return view, prog.Graph, err
}

// undelivered ends a lease whose turn was not sent. A turn that could not be rendered counts as a failed attempt, so
// that the number of attempts is bounded.
func (sp *namespaceShard) undelivered(lease *turnLease, err error) {
	sp.mu.Lock()
	if lease.over {
		sp.mu.Unlock()
		return
	}
	if run := sp.runs[lease.run]; run != nil && run.turn != nil && run.turn.lease == lease {
		run.turn.lease = nil
	}
	sp.closeTurnLease(lease, false)
	sp.mu.Unlock()
	// An unavailable store is not the fault of the turn, so no attempt is counted.
	if errors.Is(err, errNotOpen) || !away(err) && sp.failUnrendered(lease, err) {
		sp.refresh(lease.run)
		return
	}
	sp.dispatcher.timers.set(workRetry, func() { sp.refresh(lease.run) })
}

// away reports whether an error means that the store cannot be read at the moment.
func away(err error) bool {
	refusal, ok := errors.AsType[*machine.Error](err)
	return ok && refusal.Code == machine.CodeUnavailable || errors.Is(err, machine.ErrIndeterminate)
}

// retries reports whether the dispatcher repeats an operation on a run that failed with err. An operation on a run, pack or
// step that does not exist is not repeated, because it would fail for ever.
func (sp *namespaceShard) retries(err error) bool {
	refusal, ok := errors.AsType[*machine.Error](err)
	missing := ok && refusal.Code == machine.CodeNotFound
	return err != nil && !missing && sp.dispatcher.cfg.Engine.Health() == nil
}

// failUnrendered fails the attempt of a turn that cannot be rendered. It reports whether the failure was recorded.
func (sp *namespaceShard) failUnrendered(lease *turnLease, cause error) bool {
	_, err := sp.dispatcher.cfg.Engine.ApplyInternal(context.Background(), sp.key(lease.run), machine.FailTurn{
		TurnSeq: lease.turn, Attempt: lease.attempt, Retryable: true,
		Error: machine.Fault{Code: "TURN_NOT_RENDERED", Message: cause.Error()},
	})
	return err == nil
}

// refresh reads the state of a run and updates its work, under the lock of the run. So [Dispatcher.OnCommit] always
// processes a commit in progress first, which is necessary because only OnCommit knows under which lease a commit was
// made.
func (sp *namespaceShard) refresh(run string) {
	key := sp.key(run)
	err := sp.dispatcher.cfg.Engine.WithRunLock(key, func() error { return sp.settleRead(key) })
	if sp.retries(err) {
		sp.dispatcher.timers.set(workRetry, func() { sp.refresh(run) })
	}
}

// settleRead reads the state of a run and updates its work. The caller holds the lock of the run.
func (sp *namespaceShard) settleRead(key runtime.RunKey) error {
	ctx := context.Background()
	s, prog, err := sp.dispatcher.cfg.Engine.Current(ctx, key)
	if err != nil {
		return err
	}
	held, err := sp.dispatcher.holders(ctx, prog.Graph, s)
	if err != nil {
		return err
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.settle(s, prog.Graph, nil, held)
	return nil
}

// unlease ends the lease of a run's turn. If no worker has the turn, it is removed from the matcher.
func (sp *namespaceShard) unlease(run *workRun, s *machine.State, c *runtime.Commit) {
	turn := run.turn
	lease := turn.lease
	if lease == nil {
		sp.withdraw(machine.WorkID{RunID: run.id}, turn.class)
		return
	}
	turn.keepPast(lease)
	sp.countTurnFailure(lease, &turn.class, c)
	sp.endLease(turn, revokeCause(s, c), by(c, lease.worker, lease.token))
}

// endLease ends the lease of a turn. own reports whether the worker itself ended the turn by a request. Otherwise the
// worker is notified.
func (sp *namespaceShard) endLease(turn *turnWork, cause RevokeCause, own bool) {
	lease := turn.lease
	turn.lease = nil
	if lease.sent && !own {
		told := lease.snapshot()
		lease.worker.sink.Revoke(Revocation{Turn: &told, Cause: cause})
	}
	sp.closeTurnLease(lease, own)
}

// maxPast bounds the earlier deliveries (assignments to workers) of a turn's attempt that are remembered.
const maxPast = 2 * maxLost

func (t *turnWork) keepPast(lease *turnLease) {
	if lease.sent && !lease.served && len(t.past) < maxPast {
		t.past = append(t.past, lease)
	}
}

// closeTurnLease removes a lease from its worker. own reports whether the worker itself ended the lease, by a request
// under this lease.
func (sp *namespaceShard) closeTurnLease(lease *turnLease, own bool) {
	w := lease.worker
	lease.over = true
	delete(w.turns, lease.token)
	w.over.Put(lease.token, pastTurn{run: lease.run, grant: lease.grant(), own: own}, 1)
	sp.dispatcher.timers.cancel(lease.timer)
	if lease.served {
		return
	}
	sp.sticky.put(lease.run, w.name)
	if !lease.sent {
		sp.matcher.Credit(w.id, 1, 0)
	}
	sp.matcher.Done(w.id, machine.TurnWork)
}

// by reports whether the worker made the commit, under the lease with this token. c is nil if the state was read from
// the store. Then by returns false.
func by(c *runtime.Commit, w *Worker, token string) bool {
	return c != nil && c.Holder == runtime.LeaseHolder(w) && c.Token == token
}

// revokeCause returns the reason why a commit ended a lease, for the notification of the worker.
func revokeCause(s *machine.State, c *runtime.Commit) RevokeCause {
	if s.Status.Terminal() {
		return RevokedRunEnded
	}
	if c == nil {
		return RevokedAbandoned
	}
	switch cmd := c.Batch.Input.Command.(type) {
	case machine.LoseTurn, machine.LoseStep:
		return RevokedLeaseExpired
	case machine.FireTimer:
		if cmd.Kind == machine.TimerStep {
			return RevokedLeaseExpired
		}
	case machine.CompleteTurn, machine.FailTurn, machine.ResolveStep:
		return RevokedSuperseded
	}
	return RevokedAbandoned
}

// expire ends a lease that has expired while its worker was connected, and counts a failed attempt. From then on a
// heartbeat cannot extend the lease.
func (sp *namespaceShard) expire(lease *turnLease) {
	sp.mu.Lock()
	over := lease.over
	sp.mu.Unlock()
	if over {
		return
	}
	_, err := sp.loseTurn(lease, machine.LoseTurn{LeaseExpired: true})
	if err == nil {
		sp.refresh(lease.run)
		return
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if !lease.over && sp.retries(err) {
		lease.timer = sp.dispatcher.timers.set(workRetry, func() { sp.expire(lease) })
	}
}

func (sp *namespaceShard) loseTurn(lease *turnLease, cmd machine.LoseTurn) (runtime.Answer, error) {
	cmd.TurnSeq, cmd.Attempt, cmd.Assigned = lease.turn, lease.attempt, lease.assignment()
	return sp.dispatcher.cfg.Engine.ApplyInternal(context.Background(), sp.key(lease.run), cmd)
}

// requeue offers the turn of a lease to workers again, after its worker disconnected or released the turn. If lost is true, a delivery
// that was sent counts as lost. After maxLost lost deliveries the run ends instead. A turn of a served run is not offered.
func (sp *namespaceShard) requeue(lease *turnLease, lost bool) {
	run := sp.runs[lease.run]
	if run == nil || run.turn == nil || run.turn.lease != lease {
		return
	}
	turn := run.turn
	turn.lease = nil
	turn.keepPast(lease)
	if lost && lease.sent {
		turn.lost++
		sp.countFailure(lease.worker, Failure{RunID: run.id, Class: turn.class, Attempt: turn.attempt, Cause: FailureDisconnected})
	}
	if turn.lost >= maxLost {
		go sp.undeliverable(lease)
		return
	}
	if lease.served {
		return // only a worker that serves the run can execute the turn
	}
	if !turn.paused && !sp.offer(machine.Work{WorkClass: turn.class, RunID: run.id, Turn: turn.seq, Attempt: turn.attempt}) {
		run.turn = nil
	}
}

// undeliverable ends a run whose turn was lost too often, because the turn probably crashes its workers.
func (sp *namespaceShard) undeliverable(lease *turnLease) {
	if _, err := sp.loseTurn(lease, machine.LoseTurn{Undeliverable: true}); sp.retries(err) {
		sp.dispatcher.timers.set(workRetry, func() { sp.undeliverable(lease) })
	}
}
