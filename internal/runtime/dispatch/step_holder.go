package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// A tool that began must not begin again because the sidecar died. So the store
// knows to whom a step goes before it is sent (docs/dev/adr/0011-step-holders.md); it is
// the one fact about deliveries that is not memory only.

// holders says who holds pending steps, as the store has it; a step that is not
// in it was not looked up, or is not pending any more.
type holders map[uint32]machine.StepHolder

// issued are the steps that a commit made pending: nobody holds them.
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

// holders reads who holds the pending steps of a state.
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

// outgoing is the row of a step's outgoing work.
func outgoing(g *machine.Graph, s *machine.State, step uint32) machine.OutboxRow {
	for _, row := range rules.Outbox(g, s) {
		if row.Step == step {
			return row
		}
	}
	return machine.OutboxRow{}
}

// awaitHolder gives the worker that had a step when an earlier process died time
// to connect again, from the start of this one.
func (sp *namespaceShard) awaitHolder(run *workRun, step *stepWork, holder machine.StepHolder) {
	if holder.Worker == "" {
		return // Nobody had it, or the caller that drives the run.
	}
	if w := sp.names[workerName{principal: holder.Principal, id: holder.Worker}]; w != nil && w.is(holder) && w.outgoing.lost(holder) {
		// It is connected, and the step never reached it.
		step.storing = true
		go sp.releaseStep(run.id, step)
		return
	}
	sp.awaitReconnect(run, step, holder, max(0, sp.dispatcher.started+sp.dispatcher.cfg.RestartGrace-sp.dispatcher.cfg.Clock.Elapsed()))
}

// awaitReconnect lets a step wait for its worker for a while.
func (sp *namespaceShard) awaitReconnect(run *workRun, step *stepWork, holder machine.StepHolder, most time.Duration) {
	step.lostBy, sp.disconnected[step] = holder, run.id
	step.reconnectTimer = sp.dispatcher.timers.set(most, func() { sp.loseStep(run.id, step) })
}

// releaseUnreceived offers the steps again that a worker never got although they were
// sent to it: it is the same process, and has received no delivery of their number. What
// it has received and does not present waits out its grace: nobody knows what it did.
func (sp *namespaceShard) releaseUnreceived(w *Worker, req *WorkerRequest, presented map[machine.WorkID]bool) {
	for step, run := range sp.disconnected {
		switch {
		case !w.is(step.lostBy):
		case presented[machine.WorkID{RunID: run, Step: step.step}]:
			// It has it, and may not keep it: nobody knows what becomes of it.
			step.lostBy.Instance = ""
		case req.Counts && step.lostBy.Delivery > req.Received:
			sp.dispatcher.timers.cancel(step.reconnectTimer)
			delete(sp.disconnected, step)
			step.reconnectTimer, step.lostBy, step.storing = nil, machine.StepHolder{}, true
			go sp.releaseStep(run, step)
		}
	}
}

// holder is the worker as the store knows it, of a delivery of that number.
func (w *Worker) holder(delivery uint64) machine.StepHolder {
	return machine.StepHolder{Principal: w.name.principal, Worker: w.name.id, Instance: w.instance, Delivery: delivery}
}

// is reports whether the worker is the process that holds a step.
func (w *Worker) is(h machine.StepHolder) bool {
	return w.instance != "" && h == w.holder(h.Delivery)
}

// recordHolder stores to whom a step is about to be sent.
func (sp *namespaceShard) recordHolder(lease *stepLease) error {
	return sp.dispatcher.cfg.Store.HoldStep(context.Background(), lease.work.row, lease.worker.holder(lease.number))
}

// releaseStep stores that a step was not begun by the one that it was for, and offers it
// again.
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
