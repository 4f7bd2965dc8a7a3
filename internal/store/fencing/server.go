package fencing

import (
	"errors"
	"fmt"
	"time"
)

// State is what the database has of a partition.
type State struct {
	// Epoch rises with each takeover, and fences owners with an older one.
	Epoch uint64
	// Commit is the number of the newest group.
	Commit uint64
	// Owner is the last owner, Address its address. Empty: the partition was given back.
	Owner, Address string
	// Lease is when the owner's ends, by the database's clock: it rises with each renewal.
	Lease time.Time
	// Left is how long that is from the moment of the answer.
	Left time.Duration
	// Ours means that the partition belongs to the caller.
	Ours bool
}

// Server is the view that one owner of one partition has of a database. One goroutine at a time
// calls it, and it limits the time of its calls itself. An error means an unknown outcome,
// except [ErrNoFence] and a [*FinalError] of Commit.
type Server[G any] interface {
	// Acquire gives the partition to the owner under the next epoch, if its lease has ended, or
	// it is free or already the owner's; with again: only if it is already the owner's.
	// Otherwise Acquire changes no row, and State names the present owner. Without an error the
	// result is as durable as any commit.
	Acquire(again bool) (State, error)
	// Commit stores a whole group if the partition is the owner's and has the given epoch and
	// the group before it, and renews the lease. Nil: the group is durable. [ErrNoFence]: no
	// row was stored, because the partition has another epoch or group.
	Commit(epoch, number uint64, group G) error
	// Renew renews the lease under the same condition, for the newest group.
	Renew(epoch, number uint64) error
	// Release ends the lease under that epoch.
	Release(epoch uint64) error
	// Close lets the connection go.
	Close()
}

// ErrNoFence means that the partition has another epoch or newest group than the caller
// assumed.
var ErrNoFence = errors.New("the partition has another epoch or group")

// FinalError is an answer of the database that a retry does not change. The statement had no
// effect.
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
	// Epoch is that of the present owner, Ours that of the fenced one.
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
