package dispatch

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// A worker that reconnects sends one message with the runs that it serves, and with the turns and steps of these runs
// that it has. It may therefore have only as much as fits in this message. Otherwise it could not register, and it
// would lose all its active work.

const (
	// maxServed bounds the runs that one worker serves, and the steps of those runs that it has at once.
	maxServed = 10_000
	// namedBytes is how many bytes of the registration message are planned for one turn and one step together. They
	// need about half of it, and the ids and names of tools (see maxServedNameBytes) use the rest of the message.
	namedBytes = 400
)

// maxServedRuns returns how many runs one worker may serve, and how many steps of those runs it may have at once.
func (r *Dispatcher) maxServedRuns() int { return min(maxServed, r.cfg.MaxMessageBytes/namedBytes) }

// maxServedNameBytes returns how many bytes of a registration message the ids of a worker's served runs and the names
// of their tools may use.
func (r *Dispatcher) maxServedNameBytes() int { return r.cfg.MaxMessageBytes * 3 / 8 }

// names returns the number of bytes that the id of the served run and the names of its tools use in a registration
// message.
func (s *Served) names() int {
	n := 40
	for _, tool := range s.Tools {
		n += len(tool) + 3
	}
	return n
}

// checkServedLimit returns an error if this run would be one too many for the worker. It also returns an error if the
// names of the served runs would not fit in the worker's registration message.
func (w *Worker) checkServedLimit(served *Served) error {
	r := w.shard.dispatcher
	bytes, serves := w.served[served.RunID]
	if total := w.names - bytes + served.names(); total > r.maxServedNameBytes() {
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "MAX_SERVED_RUNS", Field: "tools", Limit: int64(r.maxServedNameBytes()), Got: int64(total),
			Message: fmt.Sprintf("the worker serves %d runs, and could not name them all with their tools when it connects again; name fewer tools, open another stream, or wait for some runs to end", len(w.served)),
		}
	}
	if !serves && len(w.served) >= r.maxServedRuns() {
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: "MAX_SERVED_RUNS", Field: "run_id", Limit: int64(r.maxServedRuns()), Got: int64(len(w.served)) + 1,
			Message: "the worker serves as many runs as one stream can; open another one, or wait for some to end",
		}
	}
	return nil
}

// takeServed records that the worker serves a run.
func (w *Worker) takeServed(served *Served) {
	names := served.names()
	w.names += names - w.served[served.RunID]
	w.served[served.RunID] = names
}

// dropServed records that the worker no longer serves a run.
func (w *Worker) dropServed(run string) {
	w.names -= w.served[run]
	delete(w.served, run)
	delete(w.full, run)
}

// leaseServed sends a step to the worker that serves its run. If the worker has too many steps, the step waits until the worker has
// answered some of them. A worker that is stopping gets no step.
func (sp *namespaceShard) leaseServed(run *workRun, step *stepWork) {
	w := run.serving.worker
	switch {
	case w.drains || sp.draining:
	case w.servedSteps >= sp.dispatcher.maxServedRuns():
		w.full[run.id] = struct{}{}
	default:
		sp.leaseStep(w, run, step, true)
	}
}

// fill offers the steps of one run that waited because the worker had too many steps. The offer of these steps calls
// fill again, for the next waiting run.
func (sp *namespaceShard) fill(w *Worker) {
	if w.gone || w.servedSteps >= sp.dispatcher.maxServedRuns() {
		return
	}
	for run := range w.full {
		delete(w.full, run)
		go sp.refresh(run)
		return
	}
}
