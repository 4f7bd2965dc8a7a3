package fencing

import (
	"errors"
	"fmt"
	"time"
)

// State is the state of a partition in the database.
type State struct {
	// Epoch increases with each takeover. Owners with an older epoch are fenced.
	Epoch uint64
	// Commit is the number of the newest group.
	Commit uint64
	// Owner is the last owner, and Address is the address of this owner. Both are empty if the
	// partition was released.
	Owner, Address string
	// Lease is the time at which the owner's lease ends, measured by the database's clock. Each renewal
	// makes it later.
	Lease time.Time
	// Left is the time that is left until the end of the lease, measured when the database answered.
	Left time.Duration
	// Ours reports whether the partition belongs to the caller.
	Ours bool
}

// Server is the access of one owner of one partition to a database. Only one goroutine at a time calls
// it. The Server itself limits the time of its calls. An error means that the outcome is unknown. The
// exceptions are [ErrNoFence], and a *[FinalError] of Commit.
type Server[G any] interface {
	// Acquire gives the partition to the caller under the next epoch. It does so if the lease has
	// ended, or if the partition is free or already belongs to the caller. If again is true, it does so
	// only if the partition already belongs to the caller. Otherwise Acquire changes no row, and State
	// names the current owner. If the error is nil, the result is as durable as any commit.
	Acquire(again bool) (State, error)
	// Commit stores a whole group and renews the lease. It does so only if the partition belongs to the
	// caller and has the given epoch, and its newest group is number-1. If the error is nil, the group
	// is durable. [ErrNoFence] means that no row was stored, because the partition has another epoch or
	// newest group.
	Commit(epoch, number uint64, group G) error
	// Renew renews the lease under the same condition as Commit. number is the number of the newest
	// group.
	Renew(epoch, number uint64) error
	// Release ends the lease of the given epoch.
	Release(epoch uint64) error
	// Close closes the connection.
	Close()
}

// ErrNoFence means that the epoch or the newest group of the partition is not what the caller assumed.
var ErrNoFence = errors.New("the partition has another epoch or group")

// FinalError is an error of the database that a retry does not change. The statement had no effect.
type FinalError struct{ Err error }

// Error returns the text of the database's answer.
func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the database's error.
func (e *FinalError) Unwrap() error { return e.Err }

// HeldError means that another owner has the partition and renews its lease.
type HeldError struct {
	Owner, Address string
	// Until is the time at which that owner's lease ends if it is not renewed again, measured by the
	// database's clock.
	Until time.Time
}

// Error returns a text that names the owner.
func (e *HeldError) Error() string {
	return fmt.Sprintf("it is owned by %q at %q, which renews its lease: until %s now", e.Owner, e.Address, e.Until.UTC().Format(time.RFC3339))
}

// FencedError means that another owner has taken over the partition.
type FencedError struct {
	Owner, Address string
	// Epoch is the epoch of the current owner. Ours is the epoch of the fenced owner.
	Epoch, Ours uint64
}

// Error returns a text that names the owner.
func (e *FencedError) Error() string {
	return fmt.Sprintf("it was taken over by %q at %q with epoch %d; ours was %d", e.Owner, e.Address, e.Epoch, e.Ours)
}

// DataLossError means that the database lost a group that it had acknowledged, for example by a
// failover to a standby that lagged.
type DataLossError struct{ Acked, Found uint64 }

// Error returns a text with the numbers of the acknowledged and of the newest existing group.
func (e *DataLossError) Error() string {
	return fmt.Sprintf("group %d of commits was acknowledged, the database ends with %d: it was put back to an older state, as by a failover to a standby that lagged", e.Acked, e.Found)
}

// AwayError means that the database does not answer, or that it answers that it is unavailable.
type AwayError struct {
	Since time.Time
	Err   error
}

// Error returns a text with the reason and the time since which the database is unavailable.
func (e *AwayError) Error() string {
	return fmt.Sprintf("the database is away since %s: %v", e.Since.UTC().Format(time.RFC3339), e.Err)
}

// Unwrap returns the last error of the database.
func (e *AwayError) Unwrap() error { return e.Err }
