package subscription

import (
	"context"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// subscriptionTurns let changes of one subscription follow each other: who has the
// turn reads what the one before has stored, and loses to nobody.
type subscriptionTurns struct {
	mu    sync.Mutex
	turns map[machine.SubscriptionKey]*subscriptionTurn
}

// subscriptionTurn is held by who could put its token into taken.
type subscriptionTurn struct {
	taken chan struct{}
	// wanted counts holder and waiters; at 0 it is forgotten.
	wanted int
}

func newSubscriptionTurns() *subscriptionTurns {
	return &subscriptionTurns{turns: make(map[machine.SubscriptionKey]*subscriptionTurn)}
}

// take waits for the turn of a key; done gives it back.
func (s *subscriptionTurns) take(ctx context.Context, key machine.SubscriptionKey) (done func(), err error) {
	s.mu.Lock()
	t := s.turns[key]
	if t == nil {
		t = &subscriptionTurn{taken: make(chan struct{}, 1)}
		s.turns[key] = t
	}
	t.wanted++
	s.mu.Unlock()
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; s.leave(key, t) }, nil
	case <-ctx.Done():
		s.leave(key, t)
		return nil, ctx.Err()
	}
}

func (s *subscriptionTurns) leave(key machine.SubscriptionKey, t *subscriptionTurn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.wanted--; t.wanted == 0 {
		delete(s.turns, key)
	}
}

// siblings is the turn of whoever makes a subscription of a kind, of one run or of
// none: their number is bounded. It is taken before that of the subscription.
func siblings(key machine.SubscriptionKey) machine.SubscriptionKey {
	key.ID = ""
	return key
}
