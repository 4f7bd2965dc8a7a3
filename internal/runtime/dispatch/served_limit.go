package dispatch

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// A worker that connects again names the runs that it serves, and their turns and steps that it
// has, in one message. It is given no more than that message can name: else it would be refused,
// with everything that it has at work.

const (
	// maxServed bounds the runs that one worker serves, and the steps of them that it has at once.
	maxServed = 10_000
	// namedBytes is what a turn and a step take of a registration, with half a message for all.
	namedBytes = 400
)

// maxServedRuns is how many runs one worker serves, and how many steps of them it has at once.
func (r *Dispatcher) maxServedRuns() int { return min(maxServed, r.cfg.MaxMessageBytes/namedBytes) }

// maxServedNameBytes is how many bytes the runs that one worker serves have by name, with their tools.
func (r *Dispatcher) maxServedNameBytes() int { return r.cfg.MaxMessageBytes * 3 / 8 }

// names is how many bytes a registration has for a run that is served.
func (s *Served) names() int {
	n := 40
	for _, tool := range s.Tools {
		n += len(tool) + 3
	}
	return n
}

// checkServedLimit refuses a run that the worker could not name beside those that it serves.
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

// takeServed notes that the worker serves a run.
func (w *Worker) takeServed(served *Served) {
	names := served.names()
	w.names += names - w.served[served.RunID]
	w.served[served.RunID] = names
}

// dropServed notes that the worker serves a run no more.
func (w *Worker) dropServed(run string) {
	w.names -= w.served[run]
	delete(w.served, run)
	delete(w.full, run)
}

// leaseServed makes a step of a run the one's that serves it, or lets it wait until that one has
// answered others.
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

// fill looks at a run whose steps wait until the worker has answered others, once it has. The run
// looks at the next one in its turn.
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
