package fencing_test

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// TestKeptBySomebodyElse: an idle owner sends no statements. A separate loop renews its lease under the epoch
// that the owner publishes. Another node is refused at once, and takes the partition after the lease has
// ended.
func TestKeptBySomebodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{dice: rand.New(rand.NewPCG(1, 1)), calm: true}
		a := takePartition(t, w, "a")
		stop := a.client.renewLease()
		time.Sleep(10 * lease)
		began := time.Now()
		_, err := take(w, "b")
		if held, ok := errors.AsType[*fencing.HeldError](err); !ok || held.Owner != "a" || time.Since(began) > 100*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(began))
		}
		stop()
		time.Sleep(lease)
		b := takePartition(t, w, "b")
		if got := commit(a.Owner); got != kv.Unknown {
			t.Errorf("%v", got)
		}
		if a.client.kept.Load() != 0 || b.client.kept.Load() == 0 {
			t.Errorf("epochs %d and %d", a.client.kept.Load(), b.client.kept.Load())
		}
		for _, o := range []ownedPartition{a, b} {
			if err := o.Close(); err != nil || o.client.kept.Load() != 0 {
				t.Error(err)
			}
		}
	})
}

// TestNothingIsKeptInDoubt: while the outcome of a commit is unknown to the owner, no loop renews its lease.
func TestNothingIsKeptInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{dice: rand.New(rand.NewPCG(1, 1)), calm: true}
		a := takePartition(t, w, "a")
		if got := commit(a.Owner); got != kv.Stored || a.client.kept.Load() != 1 {
			t.Fatal(got, a.client.kept.Load())
		}
		a.client.cutOff.Store(true)
		done := make(chan kv.Outcome, 1)
		go func() { done <- commit(a.Owner) }()
		time.Sleep(time.Second)
		if a.client.kept.Load() != 0 {
			t.Error("it is kept")
		}
		a.client.cutOff.Store(false)
		if got := <-done; got != kv.Stored || a.client.kept.Load() != 2 {
			t.Error(got, a.client.kept.Load())
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
}

type ownedPartition struct {
	*fencing.Owner[string]
	client *client
}

func take(w *world, name string) (ownedPartition, error) {
	c := &client{world: w, name: name, kept: new(atomic.Uint64)}
	owner, err := fencing.Acquire(c, fencing.Config{Lease: lease, GracePeriod: time.Second, CloseTimeout: time.Second, RenewedEpoch: c.kept, OnEvent: func(string, error) {}})
	return ownedPartition{owner, c}, err
}

func takePartition(t *testing.T, w *world, name string) ownedPartition {
	t.Helper()
	o, err := take(w, name)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func commit(o *fencing.Owner[string]) kv.Outcome {
	results := make(chan kv.Outcome, 1)
	o.Commit(o.LastKey()+1, "group", func(r kv.Result) { results <- r.Outcome })
	return <-results
}
