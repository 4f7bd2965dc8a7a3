package fencing

import (
	"errors"
	"fmt"
	"time"
)

// State is the state of a partition in the database.
type State struct {
	// Epoch increases with each takeover. The database refuses the commits of older epochs (fencing).
	Epoch uint64
	// Commit is the number of the newest group of commits in the partition.
	Commit uint64
	// Owner is the id of the last owner, and Address is its address. Both are empty if the partition
	// was released.
	Owner, Address string
	// Lease is the time at which the owner's lease ends, by the database's clock. Each renewal makes it
	// later.
	Lease time.Time
	// Left is the time that is left until the end of the lease, measured when the database answered.
	Left time.Duration
	// Ours reports whether the caller of the Server owns the partition.
	Ours bool
}

// Server is the access of one owner of one partition to the database. Only one goroutine at a time
// calls it. A Server itself limits the time of its calls. After an error the outcome of a call is
// unknown, except after [ErrNoFence] and after a *[FinalError] of Commit.
type Server[G any] interface {
	// Acquire gives the partition to the caller under the next epoch. It does so if the lease has
	// ended, or if the partition is free or already belongs to the caller. If again is true, the
	// partition must already belong to the caller. Otherwise Acquire changes no row, and State names
	// the current owner. If the error is nil, the result is as durable as any commit.
	Acquire(again bool) (State, error)
	// Commit stores a whole group of commits and renews the lease. The partition must belong to the
	// caller and have the given epoch, and its newest group must be number-1. Otherwise no row is
	// stored and the error is [ErrNoFence]. If the error is nil, the group is durable.
	Commit(epoch, number uint64, group G) error
	// Renew renews the lease if the partition belongs to the caller, has the given epoch, and its
	// newest group of commits is number.
	Renew(epoch, number uint64) error
	// Release ends the lease of the given epoch.
	Release(epoch uint64) error
	// Close closes the connection.
	Close()
}

// ErrNoFence means that the epoch or the newest commit group of the partition is not the one that the
// caller passed.
var ErrNoFence = errors.New("the partition has another epoch or group")

// FinalError is an error of the database that a retry cannot change. The statement had no effect.
type FinalError struct{ Err error }

// Error returns the text of the database's answer.
func (e *FinalError) Error() string { return e.Err.Error() }

// Unwrap returns the database's error.
func (e *FinalError) Unwrap() error { return e.Err }

// HeldError means that another owner has the partition, and that its lease has not ended.
type HeldError struct {
	Owner, Address string
	// Until is the time at which the owner's lease ends if it is not renewed again, by the database's
	// clock.
	Until time.Time
}

// Error returns a text that names the owner.
func (e *HeldError) Error() string {
	return fmt.Sprintf("it is owned by %q at %q, which renews its lease: until %s now", e.Owner, e.Address, e.Until.UTC().Format(time.RFC3339))
}

// FencedError means that another owner has taken over the partition from this one.
type FencedError struct {
	Owner, Address string
	// Epoch is the epoch of the current owner. Ours is the epoch of the fenced owner.
	Epoch, Ours uint64
}

// Error returns a text that names the owner.
func (e *FencedError) Error() string {
	return fmt.Sprintf("it was taken over by %q at %q with epoch %d; ours was %d", e.Owner, e.Address, e.Epoch, e.Ours)
}

// DataLossError means that the database lost a group of commits that it had acknowledged, for example
// by a failover to a standby that lagged.
type DataLossError struct{ Acked, Found uint64 }

// Error returns a text with the numbers of the newest acknowledged and of the newest existing commit
// group.
func (e *DataLossError) Error() string {
	return fmt.Sprintf("group %d of commits was acknowledged, the database ends with %d: it was put back to an older state, as by a failover to a standby that lagged", e.Acked, e.Found)
}

// AwayError means that the database does not answer, or answers that it is unavailable.
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
