package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
)

// stepLease is one delivery of a step: the step is assigned to a worker, which may execute it. It needs no timer,
// because it ends with the deadline of the step, which is a durable timer of the run. The mutex of the shard guards it.
type stepLease struct {
	run     string
	worker  *Worker
	work    *stepWork
	step    uint32
	tool    string
	attempt int
	token   string
	// number is the number of this delivery among all steps that were sent to the worker's process. It is 0 if the worker
	// already had the step when it connected, because the step then has a number from an earlier connection.
	number             uint64
	sent, over, served bool
	// at is the time when the step was assigned to the worker, in Unix nanoseconds.
	at int64
}

func (l *stepLease) snapshot() StepLease {
	return StepLease{RunID: l.run, Step: l.step, Tool: l.tool, Attempt: l.attempt, Token: l.token}
}

// leaseStep assigns a pending step to a worker and sends it. served reports whether the worker serves (executes alone)
// the run.
func (sp *namespaceShard) leaseStep(w *Worker, run *workRun, step *stepWork, served bool) {
	lease := &stepLease{
		run: run.id, worker: w, work: step, step: step.step, tool: step.class.Tool, attempt: step.attempt,
		token: sp.dispatcher.cfg.IDs.Token(), served: served, at: sp.now(),
	}
	step.lease, step.storing = lease, true
	lease.register()
	go sp.deliverStep(lease)
}

// register adds the lease to the leases of its worker.
func (l *stepLease) register() {
	l.worker.steps[l.token] = l
	if l.served {
		l.worker.servedSteps++
	}
}

// unregister removes the lease from the leases of its worker.
func (l *stepLease) unregister() {
	if _, has := l.worker.steps[l.token]; has && l.served {
		l.worker.servedSteps--
	}
	delete(l.worker.steps, l.token)
}

// deliverStep stores which worker has a step and then sends the step to this worker, unless the lease has ended in the
// meantime.
func (sp *namespaceShard) deliverStep(lease *stepLease) {
	delivery, err := sp.openStep(context.Background(), lease)
	if err == nil && sp.limits(lease, delivery.Run) {
		return
	}
	sp.mu.Lock()
	place := lease.worker.outgoing.begin()
	sp.mu.Unlock()
	lease.number, delivery.Delivery = place.number, place.number
	var queue func()
	if err == nil {
		queue, err = lease.worker.sink.PrepareStep(delivery)
	}
	if err == nil {
		err = sp.recordHolder(lease)
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	lease.worker.outgoing.end(place, func() { sp.sendStep(lease, queue, err) })
}

// sendStep sends a step to its worker. It is called in the order of the delivery numbers. If err is not nil, the step
// cannot be sent: its lease ends, and the step is offered again later.
func (sp *namespaceShard) sendStep(lease *stepLease, queue func(), err error) {
	switch {
	case err != nil && !lease.over:
		sp.detachStepLease(lease)
		sp.closeStepLease(lease)
		sp.releaseStepLater(lease.run, lease.work)
	case err != nil:
		sp.releaseStepLater(lease.run, lease.work)
	case lease.over:
		go sp.releaseStep(lease.run, lease.work)
	default:
		lease.sent, lease.work.storing = true, false
		lease.worker.counts.countTaken(&lease.work.class)
		queue()
	}
}

// limits reports whether a step has to wait for the operator's rate limits. If so, its lease ends. limits calls
// [Limits.Step] under the lock of the shard, so that the step cannot end at the same time.
func (sp *namespaceShard) limits(lease *stepLease, s *machine.State) bool {
	if sp.dispatcher.cfg.Limits == nil {
		return false
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	i := slices.IndexFunc(s.Steps, func(p machine.ToolStep) bool { return p.Step == lease.step })
	if lease.over || i < 0 {
		return false
	}
	step := lease.work
	if sp.dispatcher.cfg.Limits.Step(sp.key(lease.run), s, &s.Steps[i], func() { sp.unlimited(lease.run, step) }) {
		return false
	}
	step.limited, step.storing = true, false
	sp.detachStepLease(lease)
	sp.closeStepLease(lease)
	return true
}

// unlimited offers a step to workers after the operator's rate limits allow it.
func (sp *namespaceShard) unlimited(run string, step *stepWork) {
	sp.mu.Lock()
	step.limited = false
	sp.mu.Unlock()
	sp.refresh(run)
}

// unplace frees the rate-limit capacity of a pending step that no worker has: no worker can execute it, its worker
// released or never received it, or the run is paused. The capacity is requested again before the step is sent. When a
// step is no longer pending, the rate limiter frees the capacity itself.
func (sp *namespaceShard) unplace(run string, step *stepWork) {
	if sp.dispatcher.cfg.Limits != nil {
		sp.dispatcher.cfg.Limits.Requeue(sp.key(run), step.step, step.attempt)
	}
}

// awaitDue holds back a step until its attempt is due. The due time is stored in the step's row of the outbox. The
// timer exists only in memory.
func (sp *namespaceShard) awaitDue(run *workRun, step *stepWork) {
	left := time.Duration(step.row.Due - sp.now())
	if left <= 0 {
		return
	}
	step.pause = sp.dispatcher.timers.set(left, func() {
		sp.mu.Lock()
		defer sp.mu.Unlock()
		if sp.runs[run.id] != run || run.steps[step.step] != step {
			return
		}
		step.pause = nil
		go sp.refresh(run.id)
	})
}

// openStep reads the step that was assigned and checks that it may be sent to a worker.
func (sp *namespaceShard) openStep(ctx context.Context, lease *stepLease) (StepDelivery, error) {
	key := sp.key(lease.run)
	s, prog, err := sp.dispatcher.cfg.Engine.Current(ctx, key)
	if err != nil {
		return StepDelivery{}, err
	}
	for i := range s.Steps {
		p := &s.Steps[i]
		if p.Step != lease.step || !p.Dispatchable() || p.Attempt != lease.attempt {
			continue
		}
		view, err := sp.dispatcher.cfg.Past.Step(ctx, key, p)
		if err == nil {
			err = sp.verifyDispatch(ctx, key, s, prog.Graph, &view, lease.work.row)
		}
		if err != nil {
			return StepDelivery{}, err
		}
		return StepDelivery{
			StepLease: lease.snapshot(), Step: view, Run: s, RequestedAt: lease.work.row.Due, Traceparent: trace.Step(s, lease.step, lease.attempt),
			Left: max(0, time.Duration(p.Deadline-sp.now())),
		}, nil
	}
	return StepDelivery{}, fmt.Errorf("step %d of run %s is not pending any more", lease.step, lease.run)
}

// verifyDispatch checks that a call may be sent: the operator's allowlist must still contain the tool, and the call
// must be exactly the approved one. Otherwise the call is answered with an error or waits for approval again. If a
// caller has received the call before, its outcome is unknown. row is the outbox row of the step.
func (sp *namespaceShard) verifyDispatch(ctx context.Context, key runtime.RunKey, s *machine.State, g *machine.Graph, view *history.StepView, row machine.OutboxRow) error {
	step := &view.ToolStep
	wrong := approval.CheckAllowed(sp.dispatcher.cfg.Allow, g, step)
	if wrong == nil {
		wrong = approval.Verify(s, step, view.Payload, sp.now())
	}
	if wrong == nil {
		return nil
	}
	refusal := approval.Refusal(step, wrong)
	if _, mismatch := errors.AsType[*approval.Mismatch](wrong); !mismatch {
		holder, err := sp.dispatcher.cfg.Store.StepHolder(ctx, row)
		if err != nil {
			return err
		}
		if holder.Worker == "" {
			refusal = withholdCommand(g, s, step, holder, wrong)
		}
	}
	if _, err := sp.dispatcher.cfg.Engine.ApplyInternal(ctx, key, refusal); err != nil {
		return err
	}
	return wrong
}

// detachStepLease records that no worker has the step of the lease any more.
func (sp *namespaceShard) detachStepLease(lease *stepLease) {
	if run := sp.runs[lease.run]; run != nil {
		if step := run.steps[lease.step]; step != nil && step.lease == lease {
			step.lease = nil
		}
	}
}

// endStep removes a step from the shard because the step is answered or cancelled, or its attempt has ended.
func (sp *namespaceShard) endStep(run *workRun, step *stepWork, s *machine.State, c *runtime.Commit) {
	delete(run.steps, step.step)
	sp.dispatcher.timers.cancel(step.reconnectTimer)
	sp.dispatcher.timers.cancel(step.pause)
	delete(sp.disconnected, step)
	lease := step.lease
	sp.countStepFailure(run.id, step, lease, c)
	if lease == nil {
		sp.withdraw(machine.WorkID{RunID: run.id, Step: step.step}, step.class)
		return
	}
	step.lease = nil
	own := by(c, lease.worker, lease.token)
	if lease.sent && !own {
		told := lease.snapshot()
		lease.worker.sink.Revoke(Revocation{Step: &told, Cause: revokeCause(s, c)})
	}
	sp.closeStepLease(lease)
}

// closeStepLease removes a lease from its worker, so that the worker can get other work.
func (sp *namespaceShard) closeStepLease(lease *stepLease) {
	w := lease.worker
	lease.over = true
	lease.unregister()
	if lease.sent {
		w.past.put(lease.snapshot())
	}
	if lease.served {
		sp.fill(w)
		return
	}
	if !lease.sent {
		sp.matcher.Credit(w.id, 0, 1)
	}
	sp.matcher.Done(w.id, machine.StepWork)
}

// disconnectStep keeps a step for the worker that lost its connection, until the worker reconnects or the grace period
// ends.
func (sp *namespaceShard) disconnectStep(lease *stepLease) {
	run := sp.runs[lease.run]
	if run == nil || run.steps[lease.step] == nil || run.steps[lease.step].lease != lease {
		return
	}
	step := run.steps[lease.step]
	step.lease = nil
	if !lease.sent {
		return // deliverStep offers the step again
	}
	sp.awaitReconnect(run, step, lease.worker.holder(lease.number), sp.dispatcher.cfg.StepGrace)
}

// loseStep records that the outcome of a step is unknown, because the worker that had it did not reconnect.
func (sp *namespaceShard) loseStep(run string, step *stepWork) {
	sp.mu.Lock()
	current := sp.runs[run] != nil && sp.runs[run].steps[step.step] == step && step.lease == nil
	sp.mu.Unlock()
	if !current {
		return
	}
	_, err := sp.dispatcher.cfg.Engine.ApplyInternal(context.Background(), sp.key(run), machine.LoseStep{
		Step: step.step, Attempt: step.attempt, Worker: step.lostBy.Worker,
	})
	if !sp.retries(err) {
		return
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if step.lease == nil {
		step.reconnectTimer = sp.dispatcher.timers.set(workRetry, func() { sp.loseStep(run, step) })
	}
}

// answered returns a function that sends the step answers in a commit to the worker that has the run's turn. It returns
// nil if there is nothing to send.
func (sp *namespaceShard) answered(run *workRun, c *runtime.Commit) func() {
	if c == nil || run.turn == nil || run.turn.lease == nil {
		return nil
	}
	var numbers []uint32
	for i := range c.Entry.Records {
		if r, ok := c.Entry.Records[i].Body.(*machine.StepResolved); ok && r.Next == 0 && r.Kind != machine.KindModel {
			numbers = append(numbers, r.Step)
		}
	}
	if numbers == nil {
		return nil
	}
	lease := run.turn.lease
	if !lease.sent {
		// The turn may be rendered already, without this answer, but not sent yet. The worker must receive the turn
		// before the answer.
		lease.missedAnswers = append(lease.missedAnswers, numbers...)
		return nil
	}
	return func() { sp.sendAnswers(lease, numbers) }
}

// sendAnswers sends the answers of steps to the worker that has the turn. If numbers is nil, it sends all answered
// steps of the visit. If the store cannot be read, it tries again later, because no other code sends these answers.
func (sp *namespaceShard) sendAnswers(lease *turnLease, numbers []uint32) {
	if !sp.retries(sp.trySendAnswers(lease, numbers)) {
		return
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if !lease.over {
		sp.dispatcher.timers.set(workRetry, func() { sp.sendAnswers(lease, numbers) })
	}
}

// trySendAnswers sends the answers of steps once, without a retry.
func (sp *namespaceShard) trySendAnswers(lease *turnLease, numbers []uint32) error {
	ctx, key := context.Background(), sp.key(lease.run)
	s, _, err := sp.dispatcher.cfg.Engine.Current(ctx, key)
	if err != nil {
		return err
	}
	if s.Turn == nil || s.Turn.Seq != lease.turn {
		return nil // the turn is over, or its next assignment contains the answers
	}
	var steps []machine.ToolStep
	for i := range s.Steps {
		if s.Steps[i].AnswerSeq != 0 && s.Steps[i].Model == nil && (numbers == nil || slices.Contains(numbers, s.Steps[i].Step)) {
			steps = append(steps, s.Steps[i])
		}
	}
	for len(steps) > 0 {
		views, err := sp.dispatcher.someViews(ctx, key, steps)
		if err != nil {
			return err
		}
		lease.worker.sink.StepsAnswered(lease.run, lease.turn, views)
		steps = steps[len(views):]
	}
	return nil
}

// maxAnswersMessageBytes bounds one message with step answers, approximately.
const maxAnswersMessageBytes = 4 << 20

// someViews reads as many of the steps as fit in one message, in order, and at least one.
func (r *Dispatcher) someViews(ctx context.Context, key runtime.RunKey, steps []machine.ToolStep) ([]history.StepView, error) {
	var views []history.StepView
	held := int64(0)
	for i := 0; i < len(steps) && held < maxAnswersMessageBytes; i++ {
		view, err := r.cfg.Past.Step(ctx, key, &steps[i])
		if err != nil {
			return nil, err
		}
		views, held = append(views, view), held+view.Bytes()
	}
	return views, nil
}
