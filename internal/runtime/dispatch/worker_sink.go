package dispatch

import (
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/render"
)

// WorkerSink is the way to a connected worker. Its methods are called in the
// order in which things happen, some of them under the engine's locks: they must
// neither block nor call the engine, except where they say so.
type WorkerSink interface {
	// PrepareTurn and PrepareStep convert an assignment and may take their time;
	// the function that they return queues it and must not block. It is not called
	// if the work was taken back meanwhile.
	PrepareTurn(TurnDelivery) (queue func(), err error)
	PrepareStep(StepDelivery) (queue func(), err error)
	// Revoke takes work back that was queued.
	Revoke(Revocation)
	// StepsAnswered tells of answers to steps of a turn that the worker holds.
	StepsAnswered(run string, turn uint64, steps []history.StepView)
	// Unserved tells that the worker serves a run no more.
	Unserved(run string, cause UnservedCause)
	// End ends the connection because of err; [Worker.Close] follows.
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
	// Deadline is when it runs out, Unix nanoseconds; each heartbeat sets it to
	// Duration from then on.
	Deadline int64
	Duration time.Duration
	// Requests is how many steps the execution has asked for; only of held ones.
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
	// Traceparent is the context of the execution; "" = the run is in no trace.
	Traceparent string
}

// StepDelivery is one assignment of a step.
type StepDelivery struct {
	StepLease
	// Delivery is its number among those to the worker's instance.
	Delivery uint64
	Step     history.StepView
	// Run is the state that the step was read from.
	Run *machine.State
	// RequestedAt is when the step was asked for, Unix nanoseconds.
	RequestedAt int64
	// Left is the time until the step's deadline.
	Left time.Duration
	// Traceparent is the context of the attempt; "" = the run is in no trace.
	Traceparent string
}

// RevokeCause says why work was taken back.
type RevokeCause uint8

const (
	// RevokedAbandoned: the visit was left.
	RevokedAbandoned RevokeCause = iota + 1
	// RevokedRunEnded: the run has ended.
	RevokedRunEnded
	// RevokedLeaseExpired: the lease, or the step's deadline, ran out.
	RevokedLeaseExpired
	// RevokedSuperseded: somebody else completed, failed or answered it.
	RevokedSuperseded
)

// Revocation takes one piece of work back; exactly one of Turn and Step is set.
type Revocation struct {
	Turn  *TurnLease
	Step  *StepLease
	Cause RevokeCause
}
