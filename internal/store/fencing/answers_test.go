package fencing_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// script is a database whose answers are written by a test. After `endless` calls, each Acquire takes the
// partition and each Commit succeeds. So an owner that would retry for ever ends there, and its test fails at
// once.
type script struct {
	take          func(call int) (fencing.State, error)
	commit        func(call int) error
	takes, stores int
}

const endless = 1000

func (s *script) Acquire(bool) (fencing.State, error) {
	if s.takes++; s.takes > endless {
		return fencing.State{Ours: true, Epoch: endless, Commit: 2}, nil
	}
	return s.take(s.takes)
}

func (s *script) Commit(uint64, uint64, string) error {
	if s.stores++; s.stores > endless {
		return nil
	}
	return s.commit(s.stores)
}

func (*script) Renew(uint64, uint64) error { return nil }
func (*script) Release(uint64) error       { return nil }
func (*script) Close()                     {}

// hasIt returns an Acquire function that takes the partition in the first call and uses `after` for all later
// calls.
func hasIt(after func(call int) (fencing.State, error)) func(int) (fencing.State, error) {
	return func(call int) (fencing.State, error) {
		if call == 1 {
			return fencing.State{Ours: true, Epoch: 1}, nil
		}
		return after(call)
	}
}

func scripted(s *script) (*fencing.Owner[string], error) {
	return fencing.Acquire[string](s, fencing.Config{Lease: lease, GracePeriod: time.Second, CloseTimeout: time.Second, OnEvent: func(string, error) {}})
}

// owned1 returns an owner that has stored group 1.
func owned1(t *testing.T, s *script) *fencing.Owner[string] {
	t.Helper()
	owner, err := scripted(s)
	if err != nil {
		t.Fatal(err)
	}
	if got := commit(owner); got != kv.Stored {
		t.Fatal(got)
	}
	return owner
}

var errRefused = &fencing.FinalError{Err: errors.New("no such table")}

// secondFails stores the first group. Each later commit has an unknown outcome.
func secondFails(call int) error {
	if call == 1 {
		return nil
	}
	return errNet
}

// The following tests are not parallel. If one of them fails, -failfast starts no schedule.

// TestTheFirstTaking: the result of the first Acquire for each answer of the database. The caller owns no
// partition yet.
func TestTheFirstTaking(t *testing.T) { //nolint:paralleltest // see above
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	others := func(owner string, until time.Duration) fencing.State {
		return fencing.State{Owner: owner, Lease: begin.Add(until), Left: lease}
	}
	for name, row := range map[string]struct {
		take  func(call int) (fencing.State, error)
		want  func(error) bool
		takes int
	}{
		"another owner renews its lease": {
			func(call int) (fencing.State, error) { return others("a", time.Duration(call)*lease), nil }, isError[*fencing.HeldError], 2,
		},
		"another owner follows the other": {
			func(call int) (fencing.State, error) { return others(string(rune('a'+call)), 0), nil }, isError[*fencing.HeldError], 2,
		},
		"another owner's lease does not end": {
			func(int) (fencing.State, error) { return others("a", 0), nil }, isError[*fencing.HeldError], 0,
		},
		"asking again changes nothing":   {func(int) (fencing.State, error) { return fencing.State{}, errRefused }, isError[*fencing.FinalError], 1},
		"the database is away for long":  {func(int) (fencing.State, error) { return fencing.State{}, errNet }, isError[*fencing.AwayError], 0},
		"the database is away for short": {afterTwo(fencing.State{Ours: true}), func(err error) bool { return err == nil }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{take: row.take}
				owner, err := scripted(s)
				if !row.want(err) || row.takes != 0 && s.takes != row.takes {
					t.Errorf("%v after %d calls", err, s.takes)
				}
				if err == nil {
					_ = owner.Close()
				}
			})
		})
	}
}

// afterTwo returns an error for the first two calls.
func afterTwo(then fencing.State) func(int) (fencing.State, error) {
	return func(call int) (fencing.State, error) {
		if call <= 2 {
			return fencing.State{}, errNet
		}
		return then, nil
	}
}

// TestTheTakingAfterAnUnknownOutcome: after a commit with an unknown outcome, the state of the database
// decides the outcome of the group and whether the owner continues.
func TestTheTakingAfterAnUnknownOutcome(t *testing.T) { //nolint:paralleltest // see above
	for name, row := range map[string]struct {
		after fencing.State
		err   error
		want  kv.Outcome
		ended func(error) bool
	}{
		"what was acknowledged is gone": {fencing.State{Ours: true, Epoch: 2}, nil, kv.Unknown, isError[*fencing.DataLossError]},
		"another owner has it":          {fencing.State{Owner: "b", Epoch: 2, Commit: 1}, nil, kv.Unknown, isError[*fencing.FencedError]},
		"another owner has built on it": {fencing.State{Ours: true, Epoch: 3, Commit: 3}, nil, kv.Unknown, isError[*fencing.FencedError]},
		"asking again changes nothing":  {fencing.State{}, errRefused, kv.Unknown, isError[*fencing.FinalError]},
		"the group is there":            {fencing.State{Ours: true, Epoch: 2, Commit: 2}, nil, kv.Stored, func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{take: hasIt(func(int) (fencing.State, error) { return row.after, row.err }), commit: secondFails}
				owner := owned1(t, s)
				if got := commit(owner); got != row.want || !row.ended(owner.Err()) {
					t.Errorf("%v, %v", got, owner.Err())
				}
				if s.takes != 2 {
					t.Errorf("taken %d times", s.takes)
				}
				_ = owner.Close()
			})
		})
	}
}

// TestAway: an owner reports that the database is unavailable when the grace period is over. After
// BeginClose, it waits only for a limited time for an outcome that it cannot find out.
func TestAway(t *testing.T) { //nolint:paralleltest // see above
	synctest.Test(t, func(t *testing.T) {
		s := &script{take: hasIt(func(int) (fencing.State, error) { return fencing.State{}, errNet }), commit: secondFails}
		owner := owned1(t, s)
		done := make(chan kv.Outcome, 1)
		go func() { done <- commit(owner) }()
		time.Sleep(time.Second / 2)
		if err := owner.Unavailable(); err != nil {
			t.Errorf("after half of its patience: %v", err)
		}
		time.Sleep(time.Second)
		if !isError[*fencing.AwayError](owner.Unavailable()) {
			t.Errorf("behind its patience: %v", owner.Unavailable())
		}
		left := time.Now()
		owner.BeginClose()
		if got := <-done; got != kv.Unknown || time.Since(left) > 3*time.Second || owner.Err() == nil {
			t.Errorf("%v after %v: %v", got, time.Since(left), owner.Err())
		}
		_ = owner.Close()
	})
}
