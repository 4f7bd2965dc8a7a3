package dispatch

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// WorkerSink sends messages to a connected worker. The dispatcher calls its methods in the order of events, partly under the engine's
// locks. The methods must neither block nor call the engine, except PrepareTurn and PrepareStep, which may take time.
type WorkerSink interface {
	// PrepareTurn and PrepareStep encode an assignment and may take time. Afterwards the dispatcher
	// calls the returned function queue, which must not block. If the lease has ended in the meantime,
	// the dispatcher does not call queue.
	PrepareTurn(TurnDelivery) (queue func(), err error)
	PrepareStep(StepDelivery) (queue func(), err error)
	// Revoke notifies the worker that it has lost work that was queued for it before.
	Revoke(Revocation)
	// StepsAnswered sends the answers of steps of a turn that the worker holds.
	StepsAnswered(run string, turn uint64, steps []history.StepView)
	// Unserved reports that the worker no longer serves a run.
	Unserved(run string, cause UnservedCause)
	// End ends the connection with the error err. The owner of the connection must then call
	// [Worker.Close].
	End(err error)
}

// TurnLease is the right of a worker to execute a turn.
type TurnLease struct {
	RunID    string
	Turn     uint64
	Attempt  int
	Delivery int
	// Token is the TurnToken of requests about the turn.
	Token string
	// Deadline is the time when the lease expires, in Unix nanoseconds. Each heartbeat sets it to the time of the heartbeat plus Duration.
	Deadline int64
	Duration time.Duration
	// Requests is the number of steps that the execution has requested. It is set only in leases that a worker sends when it connects.
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

// TurnDelivery is one assignment of a turn.
type TurnDelivery struct {
	TurnLease
	View render.TurnView
	// Traceparent is the trace context of the execution. It is "" if the run has no trace.
	Traceparent string
}

// StepDelivery is one assignment of a step.
type StepDelivery struct {
	StepLease
	// Delivery is the delivery number for the worker's process.
	Delivery uint64
	Step     history.StepView
	// Run is the state of the run from which the step was read.
	Run *machine.State
	// RequestedAt is the time when the step was requested, in Unix nanoseconds.
	RequestedAt int64
	// Left is the time that remains until the step's deadline.
	Left time.Duration
	// Traceparent is the trace context of the attempt. It is "" if the run has no trace.
	Traceparent string
}

// RevokeCause is the reason why work was revoked.
type RevokeCause uint8

const (
	// RevokedAbandoned means that the run left the visit.
	RevokedAbandoned RevokeCause = iota + 1
	// RevokedRunEnded means that the run has ended.
	RevokedRunEnded
	// RevokedLeaseExpired means that the lease or the step's deadline expired.
	RevokedLeaseExpired
	// RevokedSuperseded means that another request completed, failed or answered the work.
	RevokedSuperseded
)

// Revocation revokes one piece of work. Exactly one of Turn and Step is set.
type Revocation struct {
	Turn  *TurnLease
	Step  *StepLease
	Cause RevokeCause
}
