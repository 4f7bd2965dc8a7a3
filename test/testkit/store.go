package testkit

import (
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Fault is what a commit meets instead of success.
type Fault struct {
	// Err is returned by the commit; nil: no fault. An error that is neither a
	// refusal nor a failed precondition crashes the store.
	Err error
	// Stored means that the batch was stored although the caller got no answer.
	Stored bool
}

// Store keeps runs in memory by the rules of the real one: one commit per
// batch, preconditions inside it, an order of everything. It can hold commits
// back, fail them on demand and crash; what was acknowledged outlives a crash.
// Safe for concurrent use.
type Store struct {
	Backend

	mu     sync.Mutex
	failed chan struct{}
	dead   bool
	fault  func(*machine.Batch) Fault
	// holdFault is what HoldStep meets; nextHold is closed and replaced by each.
	holdFault error
	nextHold  chan struct{}
	held      []heldCommit
	hold      bool
	// holding is closed and replaced at each commit that is held.
	holding chan struct{}
	counter *commitCounter
}

// commitCounter counts what was stored; it outlives a crash.
type commitCounter struct {
	mu      sync.Mutex
	commits int
	// next is closed and replaced by each commit.
	next chan struct{}
}

func newCommitCounter() *commitCounter { return &commitCounter{next: make(chan struct{})} }

func (t *commitCounter) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.commits++
	close(t.next)
	t.next = make(chan struct{})
}

type heldCommit struct {
	batch *machine.Batch
	done  chan heldResult
}

type heldResult struct {
	done machine.Committed
	err  error
}

// NewStore is an empty store in memory.
func NewStore() *Store { return open(newDisk(), newCommitCounter()) }

func open(kept Backend, t *commitCounter) *Store {
	return &Store{Backend: kept, counter: t, failed: make(chan struct{}), holding: make(chan struct{}), nextHold: make(chan struct{})}
}

// FailCommits asks before each commit what it meets; nil ends that.
func (s *Store) FailCommits(fault func(*machine.Batch) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Hold keeps commits from being stored until Sync or Crash.
func (s *Store) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = true
}

// AwaitHeld returns once at least n commits are held.
func (s *Store) AwaitHeld(n int) {
	for {
		s.mu.Lock()
		holding, have := s.holding, len(s.held)
		s.mu.Unlock()
		if have >= n {
			return
		}
		<-holding
	}
}

// Sync stores the held commits, in order, as one group and holds no more.
func (s *Store) Sync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = false
	for _, h := range s.held {
		done, err := s.store(h.batch)
		h.done <- heldResult{done: done, err: err}
	}
	s.held = nil
}

// Crash loses what was not stored: held commits end indeterminate, later ones
// too, and Failed closes.
func (s *Store) Crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crash()
}

func (s *Store) crash() {
	if s.dead {
		return
	}
	s.dead = true
	for _, h := range s.held {
		h.done <- heldResult{err: machine.ErrIndeterminate}
	}
	s.held = nil
	close(s.failed)
}

// Reopen is the store of the next process on the same data.
func (s *Store) Reopen() *Store {
	s.Crash()
	return open(s.Backend.Reopen(), s.counter)
}

// Failed is closed when the store crashed.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// AwaitCommits returns once n batches were stored; false: not in time.
func (s *Store) AwaitCommits(n int, most time.Duration) bool {
	over := time.After(most)
	for {
		s.counter.mu.Lock()
		enough, next := s.counter.commits >= n, s.counter.next
		s.counter.mu.Unlock()
		if enough {
			return true
		}
		select {
		case <-next:
		case <-over:
			return false
		}
	}
}

// Commits is how many batches were stored.
func (s *Store) Commits() int {
	s.counter.mu.Lock()
	defer s.counter.mu.Unlock()
	return s.counter.commits
}
