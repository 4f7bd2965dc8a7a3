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

// These are the reasons of errors after which the router may repeat a call. Either no node has begun
// the call, or it is unknown whether a node has executed it.
const (
	reasonNotOwner = "NOT_OWNER"
	reasonDraining = "DRAINING"
	reasonUnknown  = apierror.CommitUnknown
	// PeerUnknown is the reason of the error for a call from a node that is no longer in the cluster.
	// The call was not begun.
	PeerUnknown = "PEER_UNKNOWN"
	// reasonBroken means that the connection to a node ended. It is not part of the contract. Callers
	// never receive it.
	reasonBroken = "CONNECTION_BROKEN"
)

// Unsent is the error of a call that was never sent to the other node, so it was not begun.
type Unsent struct{ Cause error }

func (u *Unsent) Error() string { return "route: not sent: " + u.Cause.Error() }
func (u *Unsent) Unwrap() error { return u.Cause }

// NotOwner returns the error NOT_OWNER. It means that this node does not own the partition. The router
// handles it, so clients never receive it.
func NotOwner() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: reasonNotOwner, RetryAfter: int64(time.Second), Message: "another node has the partition, or none",
	}
}

// noOwner returns the error NO_OWNER. It means that the partition had no owner for longer than
// OwnerTimeout.
func noOwner() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: "NO_OWNER", RetryAfter: int64(time.Second),
		Message: "no node that has the store answers at the moment; nothing was begun, repeat the call",
	}
}

// newCommitUnknown returns the error COMMIT_UNKNOWN. It means that the connection to the node was lost and that the
// node may have executed the call.
func newCommitUnknown() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: reasonUnknown, RetryAfter: int64(time.Second),
		Message: "the node that owned the store disconnected during the call, and it is unknown whether the call took effect; repeat it with the same id, or read its effect",
	}
}

// broken returns the error OWNER_LOST. It means that a stream or a read ended because the connection to
// its node was lost.
func broken() error {
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: apierror.OwnerLost, RetryAfter: int64(time.Second),
		Message: "the node that owned the store disconnected during the call; repeat the call",
	}
}

// interrupted returns the error of a stream that ended after some messages. If the node was draining,
// the error is DRAINING. Otherwise it is OWNER_LOST.
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

// failed is the error of a call during which the partition failed: its store has failed, or its lease
// may have ended. It is unknown whether the call took effect.
type failed struct{ cause error }

func (f *failed) Error() string { return f.cause.Error() }
func (f *failed) Unwrap() error { return f.cause }

func wrapIfFailed(backend Backend, err error) error {
	if err == nil {
		return nil
	}
	select {
	case <-backend.Failed():
		return &failed{err}
	default:
		return err
	}
}

// reasonOf returns the reason of an error from this process or from another node. It returns "" if
// there is none.
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

// callOutcome says whether a node has executed a call. It is derived from the error of the call.
type callOutcome uint8

const (
	// final means that the error is the answer of the call.
	final callOutcome = iota
	// notStarted means that the node has not begun the call.
	notStarted
	// unknown means that the node may have begun the call, and that no answer of the node shows whether
	// it did.
	unknown
)

// outcomeOf says what an error of an attempt means for a further attempt, see callOutcome.
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

// toClientError converts the error of the last attempt into the error that the client gets. changes
// reports whether the method changes stored state.
func toClientError(err error, changes bool) error {
	switch outcomeOf(err) {
	case notStarted:
		return noOwner()
	case unknown:
		if _, named := status.FromError(err); changes && named && reasonOf(err) == reasonUnknown {
			return err // the store's own error says more
		}
		if changes {
			return newCommitUnknown()
		}
		return broken()
	}
	return err
}

// ended returns the error that the client gets. If the router itself ended the context of the call,
// this is the router's reason, for example DRAINING. Otherwise, or if err is COMMIT_UNKNOWN, it is err.
func ended(ctx context.Context, err error) error {
	if err == nil || !isEnded(ctx) || reasonOf(err) == reasonUnknown {
		return err
	}
	return context.Cause(ctx)
}

// isEnded reports whether the router, and not the caller, ended the context.
func isEnded(ctx context.Context) bool {
	_, refused := errors.AsType[*machine.Error](context.Cause(ctx))
	return refused
}

// lostIfDraining replaces the error DRAINING by COMMIT_UNKNOWN. It is used for a stream that must not
// be repeated and has sent no message: the partition may already have executed the call.
func lostIfDraining(err error) error {
	if reasonOf(err) == reasonDraining {
		return newCommitUnknown()
	}
	return err
}
