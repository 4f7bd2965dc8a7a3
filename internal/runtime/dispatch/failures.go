package dispatch

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

const (
	// maxCountedClasses bounds the classes of work that are counted separately for one connected worker.
	maxCountedClasses = 32
	// maxFailureMessage bounds the message of an error that is kept for a worker, in bytes.
	maxFailureMessage = 512

	// These constants define when a worker fails more than its peers (the other workers of the same kind): it has at
	// least leastFailures failures, and its share of failures is at least failureFactor times the share of its peers.
	leastFailures = 5
	failureFactor = 3
)

// WorkCounts counts the turns or the steps that a worker received over its connection.
type WorkCounts struct {
	// Taken is the number that the worker received. Failed is the number of executions that it reported as failed or
	// whose result was refused. Lost is the number that ended without an answer.
	Taken, Failed, Lost int64
}

func (c WorkCounts) plus(d WorkCounts) WorkCounts {
	return WorkCounts{Taken: c.Taken + d.Taken, Failed: c.Failed + d.Failed, Lost: c.Lost + d.Lost}
}

func (c WorkCounts) failures() int64 { return c.Failed + c.Lost }

// failsMore reports whether a worker with the counts c fails more than its peers. all is the sum of the counts of the
// worker and its peers. One failure is added to the failures of the peers, so that a few executions are not enough for
// the result true.
func (c WorkCounts) failsMore(all WorkCounts) bool {
	peers := all.Taken - c.Taken
	return c.failures() >= leastFailures && peers > 0 && c.failures()*peers >= failureFactor*(all.failures()-c.failures()+1)*c.Taken
}

// FailureCause says how a worker failed or lost a turn or step.
type FailureCause uint8

const (
	// FailureAnswered means that the worker reported an error, or that the result was refused, for example by a
	// validator.
	FailureAnswered FailureCause = iota + 1
	// FailureExpired means that the lease of the turn or the deadline of the step passed without an answer.
	FailureExpired
	// FailureDisconnected means that the worker lost its connection. A turn was then offered to other workers. A step
	// had waited for the worker to reconnect, until the grace period or the deadline of the step ended.
	FailureDisconnected
)

// String returns the cause as logs and metrics name it.
func (c FailureCause) String() string {
	return [...]string{FailureAnswered: "failed", FailureExpired: "expired", FailureDisconnected: "disconnected"}[c]
}

// Failure is a turn or a step that a worker failed or lost.
type Failure struct {
	Namespace uint32
	// Worker is the id of the worker.
	Worker  string
	RunID   string
	Class   machine.WorkClass
	Attempt int
	Cause   FailureCause
	// Error is the error that was recorded. It has no trace, and its message is cut to 512 bytes. It is empty if a worker
	// lost a turn with its connection, because this is not recorded.
	Error machine.Fault
	// At is the time of the failure, in Unix nanoseconds.
	At int64
}

// workerCounts counts the work of one connected worker. The mutex of the shard guards it.
type workerCounts struct {
	turns, steps WorkCounts
	// byClass contains the same counts for each class of work. The version of the pack is not part of the class here.
	byClass map[machine.WorkClass]WorkCounts
	last    *Failure
}

// count adds counts for work of a class. If too many classes are counted, a further class adds only to the totals.
func (t *workerCounts) count(class *machine.WorkClass, add WorkCounts) {
	total := &t.turns
	if class.Kind == machine.StepWork {
		total = &t.steps
	}
	*total = total.plus(add)
	name := *class
	name.Digest, name.PackVersion = "", ""
	before, known := t.byClass[name]
	if t.byClass == nil {
		t.byClass = make(map[machine.WorkClass]WorkCounts)
	}
	if known || len(t.byClass) < maxCountedClasses {
		t.byClass[name] = before.plus(add)
	}
}

// countTaken counts a turn or step that the worker has received.
func (t *workerCounts) countTaken(class *machine.WorkClass) { t.count(class, WorkCounts{Taken: 1}) }

// countFailure counts a failure of a connected worker and reports it.
func (sp *namespaceShard) countFailure(w *Worker, f Failure) {
	add := WorkCounts{Failed: 1}
	if f.Cause != FailureAnswered {
		add = WorkCounts{Lost: 1}
	}
	w.counts.count(&f.Class, add)
	f.Worker = w.name.id
	w.counts.last = sp.reportFailure(f)
}

// reportFailure completes the description of a failure and passes it on.
func (sp *namespaceShard) reportFailure(f Failure) *Failure {
	message := f.Error.Message
	if len(message) > maxFailureMessage {
		message = message[:maxFailureMessage]
	}
	// Clone copies the shortened message. A substring would keep the whole message in memory.
	f.Error = machine.Fault{Code: f.Error.Code, Message: strings.Clone(strings.ToValidUTF8(message, ""))}
	f.Namespace, f.At = sp.ns, sp.now()
	sp.dispatcher.cfg.OnFailure(f)
	return &f
}

// countTurnFailure counts the failure of a turn whose lease a commit ends, if the commit records one.
func (sp *namespaceShard) countTurnFailure(lease *turnLease, class *machine.WorkClass, c *runtime.Commit) {
	if c == nil || !lease.sent {
		return
	}
	for i := range c.Batch.Records {
		r, ok := c.Batch.Records[i].Body.(*machine.TurnFailed)
		if !ok || r.TurnSeq != lease.turn || r.Attempt != lease.attempt {
			continue
		}
		if cause := failureCause(c, lease.worker, lease.token); cause != 0 {
			sp.countFailure(lease.worker, Failure{RunID: lease.run, Class: *class, Attempt: lease.attempt, Cause: cause, Error: r.Error})
		}
	}
}

// countStepFailure counts the failure of a step whose lease a commit ends, if the commit records one. lease is nil if no
// worker has the step, or if its worker has disconnected.
func (sp *namespaceShard) countStepFailure(run string, step *stepWork, lease *stepLease, c *runtime.Commit) {
	if c == nil || lease != nil && !lease.sent || lease == nil && step.lostBy.Worker == "" {
		return
	}
	fault := stepFault(step, c.Batch.Records)
	if fault == nil {
		return
	}
	f := Failure{RunID: run, Class: step.class, Attempt: step.attempt, Error: *fault}
	if lease != nil {
		if f.Cause = failureCause(c, lease.worker, lease.token); f.Cause != 0 {
			sp.countFailure(lease.worker, f)
		}
		return
	}
	switch c.Batch.Input.Command.(type) {
	case machine.LoseStep, machine.FireTimer:
		f.Worker, f.Cause = step.lostBy.Worker, FailureDisconnected
		sp.reportFailure(f)
	}
}

// stepFault returns the error in records that ends the attempt of a step. It returns nil if records do not end the
// attempt, or if the attempt succeeded.
func stepFault(step *stepWork, records []machine.Record) *machine.Fault {
	for i := range records {
		switch r := records[i].Body.(type) {
		case *machine.StepResolved:
			if r.Step == step.step && r.Attempt == step.attempt && !r.OK {
				return &r.Error
			}
		case *machine.StepOutcomeUnknown: // instead of StepResolved, if a reconcile tool is asked
			if r.Step == step.step && r.Attempt == step.attempt {
				return &r.Error
			}
		}
	}
	return nil
}

// failureCause returns why the turn or step with this lease failed, according to the commit that records the failure.
// It returns 0 if the worker did not cause the failure.
func failureCause(c *runtime.Commit, w *Worker, token string) FailureCause {
	if by(c, w, token) {
		return FailureAnswered
	}
	switch c.Batch.Input.Command.(type) {
	case machine.LoseTurn, machine.FireTimer:
		return FailureExpired
	case machine.LoseStep: // the worker has reconnected too late
		return FailureDisconnected
	}
	return 0
}

// Forget removes the messages of a deleted or erased run from the last failures of workers.
func (r *Dispatcher) Forget(key runtime.RunKey) {
	sp := r.shard(key.Namespace)
	if sp == nil {
		return
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for _, w := range sp.workers {
		if last := w.counts.last; last != nil && last.RunID == key.ID {
			cleared := *last // a listing may have the old one
			cleared.Error.Message = ""
			w.counts.last = &cleared
		}
	}
}

// failingMore returns the connected workers that fail more than their peers. The caller holds the lock of the shard.
func (sp *namespaceShard) failingMore() map[*Worker]bool {
	all := make(map[machine.WorkClass]WorkCounts)
	for _, w := range sp.workers {
		for class, counts := range w.counts.byClass {
			all[class] = all[class].plus(counts)
		}
	}
	more := make(map[*Worker]bool)
	for _, w := range sp.workers {
		for class, counts := range w.counts.byClass {
			if counts.failsMore(all[class]) {
				more[w] = true
			}
		}
	}
	return more
}
