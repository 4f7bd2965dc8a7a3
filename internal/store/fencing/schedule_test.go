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

// schedules is how many are tried of each kind: PAWL_SCHEDULES.
func schedules(t *testing.T) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(os.Getenv("PAWL_SCHEDULES"), 10, 64)
	if err != nil {
		return 1500
	}
	return n
}

// TestSchedules: answers are lost, statements arrive late, successes come with a warning, the
// database goes on with what its standby has, owners are stopped beyond their leases, and others
// take over. What was acknowledged is there once, in its place; what was said not to be stored
// is not; nobody's groups stand between another's.
func TestSchedules(t *testing.T) {
	t.Parallel()
	seen := tally{}
	for seed := range schedules(t) {
		synctest.Test(t, func(t *testing.T) { run(t, seed, false).into(seen) })
		if t.Failed() {
			return
		}
	}
	seen.want(t, "stored", "unknown", "taken", "held", "failover", "again")
}

// TestLossyFailovers: the standby lags. Nobody builds upon what is gone: who has it acknowledged
// hears that it is, and stores nothing more.
func TestLossyFailovers(t *testing.T) {
	t.Parallel()
	seen := tally{}
	for seed := range schedules(t) {
		synctest.Test(t, func(t *testing.T) { run(t, seed, true).into(seen) })
		if t.Failed() {
			return
		}
	}
	seen.want(t, "stored", "lost", "failover")
}

// tally counts what schedules met, so that none of it is never met.
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

// schedule is one of them: two nodes that want the partition.
type schedule struct {
	t     *testing.T
	world *world
	seed  uint64
	// mu guards what follows.
	mu    sync.Mutex
	seen  tally
	names int
	// acked are the groups that were answered as stored by number, refused those that were
	// answered as not stored.
	acked   map[uint64]string
	refused map[string]bool
	until   time.Time
	ended   chan struct{}
}

func (s *schedule) into(all tally) {
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
		time.Sleep(w.within(15 * time.Second))
		if w.roll(2) == 0 && w.failover() {
			s.note("failover")
		}
	}
	w.calms()
	for range 2 {
		<-s.ended
	}
	// What is still on its way arrives.
	time.Sleep(time.Minute)
	s.check()
	return s
}

// note counts.
func (s *schedule) note(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[kind]++
}

// name is a new one.
func (s *schedule) name() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names++
	return fmt.Sprint("owner ", s.names)
}

// node owns the partition again and again, under a new name each time, until the end.
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
			s.met(err)
			time.Sleep(s.world.within(2 * time.Second))
			continue
		}
		s.own(c, owner)
	}
}

// own commits until it is fenced, or goes, or is killed.
func (s *schedule) own(c *client, owner *fencing.Owner[string]) {
	w := s.world
	defer c.keep()()
	for n := 1 + w.roll(40); n > 0 && time.Now().Before(s.until) && owner.Err() == nil; n-- {
		if w.roll(15) == 0 {
			c.stopped.Store(time.Now().Add(w.within(2 * lease)).UnixNano())
		}
		s.commit(c, owner)
		time.Sleep(w.within(100 * time.Millisecond))
		if w.roll(20) == 0 {
			time.Sleep(2 * lease)
		}
	}
	if err := owner.Err(); err != nil {
		s.met(err)
	}
	if err := owner.Close(); err != nil {
		s.t.Error(err)
	}
	if c.kept != nil && c.kept.Load() != 0 {
		s.t.Errorf("seed %d: the lease of %s is renewed after its end", s.seed, c.name)
	}
}

func (s *schedule) commit(c *client, owner *fencing.Owner[string]) {
	number := owner.Last() + 1
	group := fmt.Sprintf("%s group %d", c.name, number)
	results := make(chan kv.Result, 2)
	owner.Commit(number, group, func(r kv.Result) { results <- r })
	var r kv.Result
	select {
	case r = <-results:
	case <-time.After(3 * time.Minute):
		s.t.Errorf("seed %d: %s has no answer after 3 minutes", s.seed, group)
		owner.BeginClose() // else it may go on for ever
		r = <-results
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.Outcome {
	case kv.Stored:
		s.seen["stored"]++
		s.acked[number] = group
		if owner.Last() != number {
			s.t.Errorf("seed %d: %s is stored, and the last is %d", s.seed, group, owner.Last())
		}
	case kv.NotStored:
		s.refused[group] = true
	case kv.Unknown:
		s.seen["unknown"]++
	}
}

func (s *schedule) met(err error) {
	switch {
	case is[*fencing.HeldError](err):
		s.note("held")
	case is[*fencing.FencedError](err):
		s.note("taken")
	case is[*fencing.DataLossError](err):
		s.note("lost")
		if !s.world.lossy {
			s.t.Errorf("seed %d: %v", s.seed, err)
		}
	case is[*fencing.AwayError](err):
	default:
		s.t.Errorf("seed %d: %v", s.seed, err)
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// check looks at what there is in the end.
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
	if names := owners(groups); !distinct(names) {
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
