package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// A crash of the sidecar must not make a tool call begin a second time. So the store keeps which worker has a step, from before the step
// is sent (docs/dev/adr/0011-step-holders.md). This is the only stored fact about deliveries of steps.

// holders maps the numbers of pending steps to the workers that have them, as stored. A step that is
// missing was not read or is no longer pending.
type holders map[uint32]machine.StepHolder

// issued returns the steps that a commit made pending. Each has the zero holder, because no worker has it
// yet.
func issued(c *runtime.Commit) holders {
	if c == nil || len(c.Batch.OutboxAdded) == 0 {
		return nil
	}
	held := make(holders, len(c.Batch.OutboxAdded))
	for i := range c.Batch.OutboxAdded {
		held[c.Batch.OutboxAdded[i].Step] = machine.StepHolder{}
	}
	return held
}

// holders reads, for each pending step of a state, which worker has it.
func (r *Dispatcher) holders(ctx context.Context, g *machine.Graph, s *machine.State) (holders, error) {
	held := make(holders)
	for _, row := range rules.Outbox(g, s) {
		if row.Kind != machine.OutboxStep {
			continue
		}
		holder, err := r.cfg.Store.StepHolder(ctx, row)
		switch {
		case err == nil:
			held[row.Step] = holder
		case !errors.Is(err, machine.ErrNoStep):
			return nil, err
		}
	}
	return held, nil
}

// outgoing returns the outbox row of a step.
func outgoing(g *machine.Graph, s *machine.State, step uint32) machine.OutboxRow {
	for _, row := range rules.Outbox(g, s) {
		if row.Step == step {
			return row
		}
	}
	return machine.OutboxRow{}
}

// awaitHolder keeps a step for the worker that had it when an earlier server process ended. The waiting
// time begins at the start of this process.
func (sp *namespaceShard) awaitHolder(run *workRun, step *stepWork, holder machine.StepHolder) {
	if holder.Worker == "" {
		return // no worker has the step, or the caller that executes the run has it
	}
	if w := sp.names[workerName{principal: holder.Principal, id: holder.Worker}]; w != nil && w.is(holder) && w.outgoing.lost(holder) {
		// The worker is connected but never received the step, so the step can be offered again.
		step.storing = true
		go sp.releaseStep(run.id, step)
		return
	}
	sp.awaitReconnect(run, step, holder, max(0, sp.dispatcher.started+sp.dispatcher.cfg.RestartGrace-sp.dispatcher.cfg.Clock.Elapsed()))
}

// awaitReconnect keeps a step for the worker that has it, for at most the given time.
func (sp *namespaceShard) awaitReconnect(run *workRun, step *stepWork, holder machine.StepHolder, most time.Duration) {
	step.lostBy, sp.disconnected[step] = holder, run.id
	step.reconnectTimer = sp.dispatcher.timers.set(most, func() { sp.loseStep(run.id, step) })
}

// releaseUnreceived offers a step again if its worker never received it. This is certain if the same
// process has reconnected and reports a lower received number. If the process received the step but does
// not report it as its own any more, the outcome is unknown. The step then waits for the full grace
// period.
func (sp *namespaceShard) releaseUnreceived(w *Worker, req *WorkerRequest, presented map[machine.WorkID]bool) {
	for step, run := range sp.disconnected {
		switch {
		case !w.is(step.lostBy):
		case presented[machine.WorkID{RunID: run, Step: step.step}]:
			// The worker received the step but may not keep it. Without the instance no worker process matches, so
			// the outcome becomes unknown when the grace period ends.
			step.lostBy.Instance = ""
		case req.Counts && step.lostBy.Delivery > req.Received:
			sp.dispatcher.timers.cancel(step.reconnectTimer)
			delete(sp.disconnected, step)
			step.reconnectTimer, step.lostBy, step.storing = nil, machine.StepHolder{}, true
			go sp.releaseStep(run, step)
		}
	}
}

// holder returns the worker in the form in which the store keeps which worker has a step. delivery is the
// number of the delivery of the step.
func (w *Worker) holder(delivery uint64) machine.StepHolder {
	return machine.StepHolder{Principal: w.name.principal, Worker: w.name.id, Instance: w.instance, Delivery: delivery}
}

// is reports whether the worker is the same process as h, which the store contains as the holder of a
// step.
func (w *Worker) is(h machine.StepHolder) bool {
	return w.instance != "" && h == w.holder(h.Delivery)
}

// recordHolder stores which worker a step is about to be sent to.
func (sp *namespaceShard) recordHolder(lease *stepLease) error {
	return sp.dispatcher.cfg.Store.HoldStep(context.Background(), lease.work.row, lease.worker.holder(lease.number))
}

// releaseStep stores that no worker has the step, because its worker did not begin it. Then it offers the
// step again.
func (sp *namespaceShard) releaseStep(run string, step *stepWork) {
	sp.unplace(run, step)
	err := sp.dispatcher.cfg.Store.HoldStep(context.Background(), step.row, machine.StepHolder{})
	if err != nil && !errors.Is(err, machine.ErrNoStep) {
		sp.releaseStepLater(run, step)
		return
	}
	sp.mu.Lock()
	step.storing = false
	sp.mu.Unlock()
	sp.refresh(run)
}

func (sp *namespaceShard) releaseStepLater(run string, step *stepWork) {
	if sp.dispatcher.cfg.Engine.Health() == nil {
		sp.dispatcher.timers.set(workRetry, func() { sp.releaseStep(run, step) })
	}
}
