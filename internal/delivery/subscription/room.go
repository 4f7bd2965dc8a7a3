package subscription

import (
	"context"
	"errors"
	"math"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// Way is what the room needs of the way of a transition.
type Way interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// NamespaceNumbers are those that are served.
	NamespaceNumbers() []uint32
}

// Journal says where the records of a namespace end.
type Journal interface {
	// Tail is the newest cursor of a namespace, Epoch the name of the store.
	Tail(ctx context.Context, ns uint32) (uint64, error)
	Epoch() [16]byte
}

// Config is everything that a [Room] needs; all but Quotas and Ends is required.
type Config struct {
	Way     Way
	Store   Store
	Journal Journal
	Clock   runtime.Clock
	// Quotas bounds webhooks and consumers of namespaces further; nil = nothing does.
	Quotas *quota.Book
	Ends   Ends
}

// Room keeps subscriptions. Its owner is the wiring. Safe for concurrent use.
type Room struct {
	cfg Config
	// consumers are the open watches of named readers.
	consumers *consumers
	// turns keep changes of one subscription apart.
	turns *subscriptionTurns
}

// New checks the configuration; it starts nothing.
func New(cfg Config) (*Room, error) {
	if cfg.Way == nil || cfg.Store == nil || cfg.Journal == nil || cfg.Clock == nil {
		return nil, errors.New("subscription: configuration: Way, Store, Journal and Clock are required")
	}
	if cfg.Ends.Letters == nil && (cfg.Ends.LettersAfter != 0 || cfg.Ends.MostLetters != 0) {
		return nil, errors.New("subscription: configuration: Ends of letters need Letters")
	}
	return &Room{cfg: cfg, consumers: newConsumers(cfg.Clock), turns: newSubscriptionTurns()}, nil
}

// readable resolves the namespace of a caller that may read its runs.
func (r *Room) readable(call runtime.Call) (uint32, error) {
	return r.cfg.Way.Admit(call, policy.RunsRead|policy.RunsWrite)
}

// figure is a position as a refusal's figure, which is signed.
func figure(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
