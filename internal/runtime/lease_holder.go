package runtime

import (
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// LeaseHolder is a connected worker. Its authority comes from the leases that it holds, not from its
// scopes. The engine calls the methods while it holds the turn of the run.
type LeaseHolder interface {
	// Holds reports whether the token in a request belongs to a lease that permits the act. The
	// returned grant is the execution that the lease belongs to. It is also valid if the result is
	// false.
	Holds(run, token string, act policy.Act, command machine.Command) (Grant, bool)
	// Counted adds requests to the number of step requests that were made under a token.
	Counted(token string, requests int)
}

// Grant is the right of one caller, or of one lease, to execute one attempt of a turn.
type Grant struct {
	// Token is the turn token; "" = none.
	Token string
	// Turn and Attempt identify the execution.
	Turn    uint64
	Attempt int
	// Delivery is the number of the token among the tokens of this execution. The numbering of default
	// step keys starts again with each delivery (machine.RequestSteps.First).
	Delivery int
	// Requests is the number of step requests that were made under this token, since it was issued or
	// since its turn was released.
	Requests int
	// Worker and At are set if the token is a lease. Worker is the worker that received the lease. At
	// is the time when it received the lease, in Unix nanoseconds.
	Worker string
	At     int64

	// principal is the name of the caller that received the token.
	principal string
}

// assignment returns the delivery that is recorded with a request under a lease. It returns nil if a
// caller, and not a worker, has the token.
func (t *Grant) assignment() *machine.Assignment {
	if t.Worker == "" || t.Delivery == 0 {
		return nil
	}
	return &machine.Assignment{Worker: t.Worker, Delivery: t.Delivery, At: t.At}
}
