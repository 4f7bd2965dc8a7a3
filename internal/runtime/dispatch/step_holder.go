package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// A crash of the sidecar must not make a tool call begin a second time. So the holder of a step is
// stored before the step is sent (docs/dev/adr/0011-step-holders.md). No other fact about deliveries is
// stored.

// holders maps the numbers of pending steps to their stored holders. If a step is missing from the map,
// it was not read or is no longer pending.
type holders map[uint32]machine.StepHolder

// issued returns the steps that a commit made pending. These steps have no holder yet.
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

// holders reads the stored holders of the pending steps of a state.
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

// awaitHolder reserves a step for the worker that held it when an earlier server process ended. The
// waiting time begins at the start of this process.
func (sp *namespaceShard) awaitHolder(run *workRun, step *stepWork, holder machine.StepHolder) {
	if holder.Worker == "" {
		return // the step has no holder, or the caller that drives the run holds it
	}
	if w := sp.names[workerName{principal: holder.Principal, id: holder.Worker}]; w != nil && w.is(holder) && w.outgoing.lost(holder) {
		// The worker is connected but did not receive the step.
		step.storing = true
		go sp.releaseStep(run.id, step)
		return
	}
	sp.awaitReconnect(run, step, holder, max(0, sp.dispatcher.started+sp.dispatcher.cfg.RestartGrace-sp.dispatcher.cfg.Clock.Elapsed()))
}

// awaitReconnect reserves a step for the worker that holds it, for at most the given time.
func (sp *namespaceShard) awaitReconnect(run *workRun, step *stepWork, holder machine.StepHolder, most time.Duration) {
	step.lostBy, sp.disconnected[step] = holder, run.id
	step.reconnectTimer = sp.dispatcher.timers.set(most, func() { sp.loseStep(run.id, step) })
}

// releaseUnreceived offers a step again if its worker did not receive it. This is certain if the same
// process has reconnected and reported a lower received number. If the process has received the step
// but does not list it, the outcome of the step is unknown, and the step waits for the full grace
// period.
func (sp *namespaceShard) releaseUnreceived(w *Worker, req *WorkerRequest, presented map[machine.WorkID]bool) {
	for step, run := range sp.disconnected {
		switch {
		case !w.is(step.lostBy):
		case presented[machine.WorkID{RunID: run, Step: step.step}]:
			// The worker has received the step but may not keep it, so the outcome of the step is unknown.
			step.lostBy.Instance = ""
		case req.Counts && step.lostBy.Delivery > req.Received:
			sp.dispatcher.timers.cancel(step.reconnectTimer)
			delete(sp.disconnected, step)
			step.reconnectTimer, step.lostBy, step.storing = nil, machine.StepHolder{}, true
			go sp.releaseStep(run, step)
		}
	}
}

// holder returns the stored form of this worker as the holder of the delivery with the given number.
func (w *Worker) holder(delivery uint64) machine.StepHolder {
	return machine.StepHolder{Principal: w.name.principal, Worker: w.name.id, Instance: w.instance, Delivery: delivery}
}

// is reports whether the worker is the process that holds a step. h is the stored holder of the step.
func (w *Worker) is(h machine.StepHolder) bool {
	return w.instance != "" && h == w.holder(h.Delivery)
}

// recordHolder stores the worker as the holder of a step that is about to be sent.
func (sp *namespaceShard) recordHolder(lease *stepLease) error {
	return sp.dispatcher.cfg.Store.HoldStep(context.Background(), lease.work.row, lease.worker.holder(lease.number))
}

// releaseStep stores that a step has no holder, because its worker did not begin it. Then releaseStep
// offers the step again.
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
