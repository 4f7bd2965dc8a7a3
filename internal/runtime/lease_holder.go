package runtime

import (
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// LeaseHolder is a caller whose authority is the leases that it holds, not its scopes: a connected worker.
// The engine calls its methods in the turn of the run in question.
type LeaseHolder interface {
	// Holds reports whether the token that a request shows is a lease that gives the right to act, and
	// returns the execution of that lease. The returned grant is valid also if the result is false.
	Holds(run, token string, act policy.Act, command machine.Command) (Grant, bool)
	// Counted adds to the number of step requests made under a token.
	Counted(token string, requests int)
}

// Grant is the right of one caller, or of one lease, to execute one attempt of a turn.
type Grant struct {
	// Token is the turn token; "" = none.
	Token string
	// Turn and Attempt name the execution.
	Turn    uint64
	Attempt int
	// Delivery numbers the tokens of this execution. The default keys of steps start anew with each delivery
	// (machine.RequestSteps.First).
	Delivery int
	// Requests counts the step requests under this token since it was issued or its turn was released.
	Requests int
	// Worker and At are set if the token is a lease's: the worker that received it, and when, in Unix
	// nanoseconds.
	Worker string
	At     int64

	// principal is the name of the caller that received the token.
	principal string
}

// assignment returns the delivery to record with a request under a lease; nil for the token of a caller.
func (t *Grant) assignment() *machine.Assignment {
	if t.Worker == "" || t.Delivery == 0 {
		return nil
	}
	return &machine.Assignment{Worker: t.Worker, Delivery: t.Delivery, At: t.At}
}
