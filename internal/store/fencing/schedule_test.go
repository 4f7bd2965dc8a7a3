package fencing_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/kv"
)

// schedules returns the number of schedules of each kind: PAWL_SCHEDULES.
func schedules(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(os.Getenv("PAWL_SCHEDULES"), 10, 64)
	if err != nil {
		return 1500
	}
	return n
}

// TestSchedules: answers are lost, statements arrive late, successes come with a warning, the database fails
// over to its standby, owners are stopped for longer than their leases, and other owners take the partition.
// Each acknowledged group is stored once, in its place. A group that was reported as not stored is not
// stored. No owner stores groups between those of another owner.
func TestSchedules(t *testing.T) {
	t.Parallel()
	seen := tally{}
	for seed := range schedules(t) {
		synctest.Test(t, func(t *testing.T) { run(t, seed, false).addTo(seen) })
		if t.Failed() {
			return
		}
	}
	seen.want(t, "stored", "unknown", "taken", "held", "failover", "again")
}

// TestLossyFailovers: the standby lags, so that a failover loses acknowledged groups. The owner that had
// received the acknowledgement gets an error and stores nothing more. No owner builds on a lost group.
func TestLossyFailovers(t *testing.T) {
	t.Parallel()
	seen := tally{}
	for seed := range schedules(t) {
		synctest.Test(t, func(t *testing.T) { run(t, seed, true).addTo(seen) })
		if t.Failed() {
			return
		}
	}
	seen.want(t, "stored", "lost", "failover")
}

// tally counts the events of schedules by kind. The tests require that each kind occurs.
type tally map[string]int

func (a tally) want(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		if a[kind] == 0 {
			t.Errorf("no schedule met %q: %v", kind, a)
		}
	}
	t.Logf("%v", a)
}

// schedule is one test run: two nodes compete for the partition.
type schedule struct {
	t     *testing.T
	world *world
	seed  uint64
	// mu guards the following fields.
	mu    sync.Mutex
	seen  tally
	names int
	// acked are the groups, by number, that were reported as stored. refused are the groups that were
	// reported as not stored.
	acked   map[uint64]string
	refused map[string]bool
	until   time.Time
	ended   chan struct{}
}

func (s *schedule) addTo(all tally) {
	for kind, n := range s.seen {
		all[kind] += n
	}
}

func run(t *testing.T, seed uint64, lossy bool) *schedule {
	t.Helper()
	w := &world{dice: rand.New(rand.NewPCG(seed, 13)), lossy: lossy}
	s := &schedule{
		t: t, world: w, seed: seed, seen: tally{}, acked: map[uint64]string{}, refused: map[string]bool{},
		until: time.Now().Add(30 * time.Second), ended: make(chan struct{}, 2),
	}
	for range 2 {
		go s.node()
	}
	for time.Now().Before(s.until) {
		time.Sleep(w.randomDuration(15 * time.Second))
		if w.randomBelow(2) == 0 && w.failover() {
			s.note("failover")
		}
	}
	w.stopFaults()
	for range 2 {
		<-s.ended
	}
	// Statements that are still on their way arrive.
	time.Sleep(time.Minute)
	s.check()
	return s
}

// note counts an event.
func (s *schedule) note(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[kind]++
}

// name returns a new name of an owner.
func (s *schedule) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names++
	return fmt.Sprint("owner ", s.names)
}

// node takes the partition again and again until the end, each time under a new name.
func (s *schedule) node() {
	defer func() { s.ended <- struct{}{} }()
	for time.Now().Before(s.until) {
		c := &client{world: s.world, name: s.name()}
		if s.seed%2 == 1 {
			c.kept = new(atomic.Uint64)
		}
		owner, err := fencing.Acquire(c, fencing.Config{
			Lease: lease, GracePeriod: time.Second, CloseTimeout: 5 * time.Second, RenewedEpoch: c.kept,
			OnEvent: func(what string, _ error) {
				if what == "commit not stored, retrying" {
					s.note("again")
				}
			},
		})
		if err != nil {
			s.noteError(err)
			time.Sleep(s.world.randomDuration(2 * time.Second))
			continue
		}
		s.own(c, owner)
	}
}

// own commits until the owner is fenced or leaves.
func (s *schedule) own(c *client, owner *fencing.Owner[string]) {
	w := s.world
	defer c.renewLease()()
	for n := 1 + w.randomBelow(40); n > 0 && time.Now().Before(s.until) && owner.Err() == nil; n-- {
		if w.randomBelow(15) == 0 {
			c.stopped.Store(time.Now().Add(w.randomDuration(2 * lease)).UnixNano())
		}
		s.commit(c, owner)
		time.Sleep(w.randomDuration(100 * time.Millisecond))
		if w.randomBelow(20) == 0 {
			time.Sleep(2 * lease)
		}
	}
	if err := owner.Err(); err != nil {
		s.noteError(err)
	}
	if err := owner.Close(); err != nil {
		s.t.Error(err)
	}
	if c.kept != nil && c.kept.Load() != 0 {
		s.t.Errorf("seed %d: the lease of %s is renewed after its end", s.seed, c.name)
	}
}

func (s *schedule) commit(c *client, owner *fencing.Owner[string]) {
	number := owner.LastKey() + 1
	group := fmt.Sprintf("%s group %d", c.name, number)
	results := make(chan kv.Result, 2)
	owner.Commit(number, group, func(r kv.Result) { results <- r })
	var r kv.Result
	select {
	case r = <-results:
	case <-time.After(3 * time.Minute):
		s.t.Errorf("seed %d: %s has no answer after 3 minutes", s.seed, group)
		owner.BeginClose() // Otherwise the owner may retry for ever.
		r = <-results
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Outcome {
	case kv.Stored:
		s.seen["stored"]++
		s.acked[number] = group
		if owner.LastKey() != number {
			s.t.Errorf("seed %d: %s is stored, and the last is %d", s.seed, group, owner.LastKey())
		}
	case kv.NotStored:
		s.refused[group] = true
	case kv.Unknown:
		s.seen["unknown"]++
	}
}

func (s *schedule) noteError(err error) {
	switch {
	case isError[*fencing.HeldError](err):
		s.note("held")
	case isError[*fencing.FencedError](err):
		s.note("taken")
	case isError[*fencing.DataLossError](err):
		s.note("lost")
		if !s.world.lossy {
			s.t.Errorf("seed %d: %v", s.seed, err)
		}
	case isError[*fencing.AwayError](err):
	default:
		s.t.Errorf("seed %d: %v", s.seed, err)
	}
}

func isError[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// check checks the stored groups at the end.
func (s *schedule) check() {
	groups := s.world.groups()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range groups {
		want := fmt.Sprintf("%s group %d", r.state.Owner, i+1)
		if r.state.Commit != uint64(i+1) || r.group != want {
			s.t.Errorf("seed %d: at %d there is %q as group %d, want %q", s.seed, i+1, r.group, r.state.Commit, want)
		}
		if s.refused[r.group] {
			s.t.Errorf("seed %d: %s was said not to be stored", s.seed, r.group)
		}
	}
	if names := owners(groups); !areDistinct(names) {
		s.t.Errorf("seed %d: groups stand between those of another owner: %q", s.seed, names)
	}
	if s.world.lossy {
		return
	}
	for number, group := range s.acked {
		if number > uint64(len(groups)) || groups[number-1].group != group {
			s.t.Errorf("seed %d: %s was acknowledged, and is not there", s.seed, group)
		}
	}
}
