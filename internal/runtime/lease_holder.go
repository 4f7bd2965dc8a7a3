package runtime

import (
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// LeaseHolder is a caller whose authority are the leases that it holds, not its scopes: a
// connected worker. Its methods are called in the turn of the run that is asked about.
type LeaseHolder interface {
	// Holds judges the word that a request shows: whether it is a lease that gives the
	// right to act, and which execution it is. The grant counts also where it is not.
	Holds(run, word string, act policy.Act, command machine.Command) (Grant, bool)
	// Counted adds to the step requests that were taken under a word.
	Counted(word string, requests int)
}

// Grant is the right of one caller, or of one lease, to act on one execution of a turn.
type Grant struct {
	// Token is the turn token; "" = none.
	Token string
	// Turn and Attempt name the execution.
	Turn    uint64
	Attempt int
	// Delivery numbers the tokens of this execution; the default keys of steps
	// start anew with each (machine.RequestSteps.First).
	Delivery int
	// Requests counts the step requests under this token since it was issued or
	// its turn was released.
	Requests int
	// Worker and At are set if the token is a lease's: who was given it, and when, Unix
	// nanoseconds.
	Worker string
	At     int64

	// principal is the caller that was given it.
	principal string
}

// assignment is the delivery that a request under a lease is recorded with; nil
// for the token of a caller.
func (t *Grant) assignment() *machine.Assignment {
	if t.Worker == "" || t.Delivery == 0 {
		return nil
	}
	return &machine.Assignment{Worker: t.Worker, Delivery: t.Delivery, At: t.At}
}
