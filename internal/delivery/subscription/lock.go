package subscription

import (
	"context"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// subscriptionLocks serializes the changes of each subscription. So a change always reads the result of
// the previous change, and there are no conflicts.
type subscriptionLocks struct {
	mu    sync.Mutex
	locks map[machine.SubscriptionKey]*subscriptionLock
}

// subscriptionLock is held by the goroutine whose token is in taken.
type subscriptionLock struct {
	taken chan struct{}
	// wanted is the number of holders and waiters. When it is 0, the lock is removed.
	wanted int
}

func newSubscriptionLocks() *subscriptionLocks {
	return &subscriptionLocks{locks: make(map[machine.SubscriptionKey]*subscriptionLock)}
}

// acquire locks a key. done unlocks it.
func (s *subscriptionLocks) acquire(ctx context.Context, key machine.SubscriptionKey) (done func(), err error) {
	s.mu.Lock()
	t := s.locks[key]
	if t == nil {
		t = &subscriptionLock{taken: make(chan struct{}, 1)}
		s.locks[key] = t
	}
	t.wanted++
	s.mu.Unlock()
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; s.release(key, t) }, nil
	case <-ctx.Done():
		s.release(key, t)
		return nil, ctx.Err()
	}
}

func (s *subscriptionLocks) release(key machine.SubscriptionKey, t *subscriptionLock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.wanted--; t.wanted == 0 {
		delete(s.locks, key)
	}
}

// siblings returns the key of a lock for new subscriptions of the same kind and run. It is needed
// because the number of these subscriptions is limited. It must be acquired before the lock of the
// subscription.
func siblings(key machine.SubscriptionKey) machine.SubscriptionKey {
	key.ID = ""
	return key
}
