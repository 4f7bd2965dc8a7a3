package fencing

import (
	"errors"
	"fmt"
	"time"
)

// State is what the database has of a partition.
type State struct {
	// Epoch rises with each taking, and fences whoever has an older one.
	Epoch uint64
	// Commit is the number of the newest group.
	Commit uint64
	// Owner is who took it last, Address where that one is; empty: it was given back.
	Owner, Address string
	// Lease is when the owner's ends, by the database's clock: it rises with each renewal.
	Lease time.Time
	// Left is how long that is from the moment of the answer.
	Left time.Duration
	// Ours: it belongs to who asked.
	Ours bool
}

// Server is a database as one owner of one partition has it. It is called by one goroutine at a
// time, and bounds its calls in time itself. An error is an unknown outcome whatever it says,
// but for [ErrNoFence] and a [*FinalError] of Commit.
type Server[G any] interface {
	// Acquire makes the partition the owner's under the next epoch, if its lease has ended, it
	// belongs to nobody or is the owner's own; again: only if it is the owner's own. Else it
	// changes nothing, and State says whose it is. Without an error it is as durable as any
	// commit.
	Acquire(again bool) (State, error)
	// Commit stores a group whole if the partition is the owner's, has that epoch and the group
	// before it, and renews the lease. Nil: it is durable. [ErrNoFence]: nothing was stored, since the
	// partition has another epoch or group.
	Commit(epoch, number uint64, group G) error
	// Renew renews the lease under the same condition, for the newest group.
	Renew(epoch, number uint64) error
	// Release ends the lease under that epoch.
	Release(epoch uint64) error
	// Close lets the connection go.
	Close()
}

// ErrNoFence: the partition has another epoch or another newest group than who commits thought.
var ErrNoFence = errors.New("the partition has another epoch or group")

// FinalError is an answer of the database that asking again does not change: nothing of the
// statement was done.
type FinalError struct{ Err error }

// Error says what the database answered.
func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap gives the database's error.
func (e *FinalError) Unwrap() error { return e.Err }

// HeldError: another owner has the partition, and renews its lease.
type HeldError struct {
	Owner, Address string
	// Until is when its lease ends if it is not renewed again, by the database's clock.
	Until time.Time
}

// Error names the owner.
func (e *HeldError) Error() string {
	return fmt.Sprintf("it is owned by %q at %q, which renews its lease: until %s now", e.Owner, e.Address, e.Until.UTC().Format(time.RFC3339))
}

// FencedError: another owner has taken the partition over.
type FencedError struct {
	Owner, Address string
	// Epoch of that owner, and that of who was fenced.
	Epoch, Ours uint64
}

// Error names the owner.
func (e *FencedError) Error() string {
	return fmt.Sprintf("it was taken over by %q at %q with epoch %d; ours was %d", e.Owner, e.Address, e.Epoch, e.Ours)
}

// DataLossError: the database does not have any more what it had acknowledged, as after a failover
// to a standby that lagged.
type DataLossError struct{ Acked, Found uint64 }

// Error says what is gone.
func (e *DataLossError) Error() string {
	return fmt.Sprintf("group %d of commits was acknowledged, the database ends with %d: it was put back to an older state, as by a failover to a standby that lagged", e.Acked, e.Found)
}

// AwayError: the database does not answer, or answers that it cannot.
type AwayError struct {
	Since time.Time
	Err   error
}

// Error says since when, and why.
func (e *AwayError) Error() string {
	return fmt.Sprintf("the database is away since %s: %v", e.Since.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap gives what the database said last.
func (e *AwayError) Unwrap() error { return e.Err }
