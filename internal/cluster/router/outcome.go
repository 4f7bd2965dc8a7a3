package router

import (
	"context"
	"errors"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Reasons that say that a call is to be made elsewhere or again.
const (
	reasonNotOwner = "NOT_OWNER"
	reasonDraining = "DRAINING"
	reasonUnknown  = apierror.CommitUnknown
	// PeerUnknown: the calling node has no row any more; the call was not begun.
	PeerUnknown = "PEER_UNKNOWN"
	// reasonBroken is no word of the contract: the connection to a node ended.
	reasonBroken = "CONNECTION_BROKEN"
)

// Unsent is the reason why a call did not reach another node: it was not begun.
type Unsent struct{ Cause error }

func (u *Unsent) Error() string { return "route: not sent: " + u.Cause.Error() }
func (u *Unsent) Unwrap() error { return u.Cause }

// NotOwner says that the partition is not this node's. Callers never hear it.
func NotOwner() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: reasonNotOwner, RetryAfter: int64(time.Second), Message: "another node has the partition, or none",
	}
}

// noOwner says that no node had the partition for too long.
func noOwner() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: "NO_OWNER", RetryAfter: int64(time.Second),
		Message: "no node that has the store answers at the moment; nothing was begun, repeat the call",
	}
}

// lost says that a call may have been made by a node that went away.
func lost() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: reasonUnknown, RetryAfter: int64(time.Second),
		Message: "the node that had the store went away under the call, and nobody knows whether it took effect; repeat it with the same id, or look what became of it",
	}
}

// broken says that a stream ended with its node.
func broken() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: apierror.OwnerLost, RetryAfter: int64(time.Second),
		Message: "the node that had the store went away under the call; make it again",
	}
}

// interrupted is the end of a stream in the middle.
func interrupted(err error) error {
	if reasonOf(err) == reasonDraining {
		return err
	}
	return broken()
}

func draining() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: reasonDraining, RetryAfter: int64(time.Second),
		Message: "the server is shutting down; go on at its successor",
	}
}

// failed is an error of a partition whose store failed, or whose lease may have ended.
type failed struct{ cause error }

func (f *failed) Error() string { return f.cause.Error() }
func (f *failed) Unwrap() error { return f.cause }

func wrapIfFailed(home Backend, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-home.Failed():
		return &failed{err}
	default:
		return err
	}
}

// reasonOf is the reason that an error names, of this process or of another one.
func reasonOf(err error) string {
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		return refusal.Reason
	}
	if errors.Is(err, machine.ErrIndeterminate) {
		return reasonUnknown
	}
	st, ok := status.FromError(err)
	if !ok {
		return ""
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	if st.Code() == codes.Unavailable {
		return reasonBroken
	}
	return ""
}

// callOutcome is what an error reveals about its call.
type callOutcome uint8

const (
	// final: it is the answer.
	final callOutcome = iota
	// notStarted: the call was not begun where it was tried.
	notStarted
	// unknown: it may have been, and its node is gone.
	unknown
)

func outcomeOf(err error) callOutcome {
	if _, ok := errors.AsType[*Unsent](err); ok {
		return notStarted
	}
	switch reasonOf(err) {
	case reasonNotOwner, reasonDraining, PeerUnknown:
		return notStarted
	case reasonUnknown, reasonBroken:
		return unknown
	}
	if _, ok := errors.AsType[*failed](err); ok {
		return unknown
	}
	if _, ok := errors.AsType[*cut](err); ok {
		return unknown
	}
	return final
}

// toClientError returns the error for the client when there is no other try.
func toClientError(err error, changes bool) error {
	switch outcomeOf(err) {
	case notStarted:
		return noOwner()
	case unknown:
		if _, named := status.FromError(err); changes && named && reasonOf(err) == reasonUnknown {
			return err // in its own words
		}
		if changes {
			return lost()
		}
		return broken()
	}
	return err
}

// ended returns why a context is over, by its cause. An unknown outcome is the more important
// error.
func ended(ctx context.Context, err error) error {
	if err == nil || !isEnded(ctx) || reasonOf(err) == reasonUnknown {
		return err
	}
	return context.Cause(ctx)
}

// isEnded: a context was ended by a refusal, and not by its caller.
func isEnded(ctx context.Context) bool {
	_, refused := errors.AsType[*machine.Error](context.Cause(ctx))
	return refused
}

// lostIfDraining is the end of a stream that is made once and has sent no message: the
// partition may have executed the call already.
func lostIfDraining(err error) error {
	if reasonOf(err) == reasonDraining {
		return lost()
	}
	return err
}
