package dispatch

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// WorkerSink sends messages to a connected worker. The dispatcher calls its methods in the order of events, partly
// while it holds locks of the engine. So the methods must neither block nor call the engine, except PrepareTurn and
// PrepareStep, which may take time.
type WorkerSink interface {
	// PrepareTurn and PrepareStep encode an assignment and may take time. Afterwards the dispatcher calls the returned
	// function queue, which sends the assignment and must not block. If the lease has ended in the meantime, queue is
	// not called.
	PrepareTurn(TurnDelivery) (queue func(), err error)
	PrepareStep(StepDelivery) (queue func(), err error)
	// Revoke notifies the worker that it has lost a turn or step that was sent to it before.
	Revoke(Revocation)
	// StepsAnswered sends the answers of steps to the worker that has the turn which requested them.
	StepsAnswered(run string, turn uint64, steps []history.StepView)
	// Unserved notifies the worker that it no longer serves (executes alone) a run.
	Unserved(run string, cause UnservedCause)
	// End ends the connection of the worker with the error err. The owner of the connection must then call
	// [Worker.Close].
	End(err error)
}

// TurnLease is the right of a worker to execute one attempt of a turn.
type TurnLease struct {
	RunID    string
	Turn     uint64
	Attempt  int
	Delivery int
	// Token is the turn token that the worker sends with its requests about the turn.
	Token string
	// Deadline is the time when the lease expires, in Unix nanoseconds. Each heartbeat sets it to the current time plus
	// Duration.
	Deadline int64
	Duration time.Duration
	// Requests is the number of steps that the execution has requested. It is set only if a reconnecting worker sends
	// the lease.
	Requests int
}

// StepLease is the right of a worker to execute one attempt of a step.
type StepLease struct {
	RunID   string
	Step    uint32
	Tool    string
	Attempt int
	Token   string
}

// TurnDelivery is a turn that is sent to a worker, with everything that the worker needs.
type TurnDelivery struct {
	TurnLease
	View runtime.TurnView
	// Traceparent is the W3C trace context of the execution. It is "" if the run has no trace.
	Traceparent string
}

// StepDelivery is a step that is sent to a worker, with everything that the worker needs.
type StepDelivery struct {
	StepLease
	// Delivery is the number of this delivery among all steps that were sent to the worker's process.
	Delivery uint64
	Step     history.StepView
	// Run is the state of the run from which the step was read.
	Run *machine.State
	// RequestedAt is the time when the attempt was issued or, after a pause, the end of the pause, in Unix nanoseconds.
	RequestedAt int64
	// Left is the time that remains until the step's deadline.
	Left time.Duration
	// Traceparent is the W3C trace context of the attempt. It is "" if the run has no trace.
	Traceparent string
}

// RevokeCause is the reason why a worker has lost a turn or step.
type RevokeCause uint8

const (
	// RevokedAbandoned means that the run no longer needs the work, for example because it has left the state.
	RevokedAbandoned RevokeCause = iota + 1
	// RevokedRunEnded means that the run has ended.
	RevokedRunEnded
	// RevokedLeaseExpired means that the lease or the step's deadline expired.
	RevokedLeaseExpired
	// RevokedSuperseded means that another request completed, failed or answered the turn or step, or that another worker has taken the
	// run over.
	RevokedSuperseded
)

// Revocation tells a worker that it has lost a turn or a step. Exactly one of Turn and Step is set.
type Revocation struct {
	Turn  *TurnLease
	Step  *StepLease
	Cause RevokeCause
}
