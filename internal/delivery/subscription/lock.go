package subscription

import (
	"context"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// subscriptionLocks has a lock for each subscription that is being changed. Only one change of a
// subscription runs at a time, so each reads the result of the one before it.
type subscriptionLocks struct {
	mu    sync.Mutex
	locks map[machine.SubscriptionKey]*subscriptionLock
}

// subscriptionLock is a lock for one subscription. A goroutine holds the lock while its value is in the
// channel taken.
type subscriptionLock struct {
	taken chan struct{}
	// wanted is the number of goroutines that hold the lock or wait for it. When it is 0, the lock is
	// removed.
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

// siblings returns the key of a lock that is held while a subscription is created. All subscriptions of
// the same kind and run share this lock, because their number is limited. It must be acquired before
// the lock of the subscription itself.
func siblings(key machine.SubscriptionKey) machine.SubscriptionKey {
	key.ID = ""
	return key
}
