package subscription

import (
	"context"
	"errors"
	"math"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// Engine is the part of the runtime that a Service uses.
type Engine interface {
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

// Config is everything that a [Service] needs; all but Quotas and Ends is required.
type Config struct {
	Engine  Engine
	Store   Store
	Journal Journal
	Clock   runtime.Clock
	// Quotas limits webhooks and consumers of namespaces further; nil = no limit.
	Quotas    *quota.Limits
	Retention RetentionConfig
}

// Service keeps subscriptions. Its owner is the wiring. Safe for concurrent use.
type Service struct {
	cfg Config
	// consumers are the open watches of named readers.
	consumers *consumers
	// locks keep changes of one subscription apart.
	locks *subscriptionLocks
}

// New checks the configuration. It starts no goroutine.
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Store == nil || cfg.Journal == nil || cfg.Clock == nil {
		return nil, errors.New("subscription: configuration: Engine, Store, Journal and Clock are required")
	}
	if cfg.Retention.DeadLetters == nil && (cfg.Retention.DeadLetterRetention != 0 || cfg.Retention.MaxDeadLetters != 0) {
		return nil, errors.New("subscription: configuration: Ends of letters need Letters")
	}
	return &Service{cfg: cfg, consumers: newConsumers(cfg.Clock), locks: newSubscriptionLocks()}, nil
}

// readable resolves the namespace of a caller that may read its runs.
func (r *Service) readable(call runtime.Call) (uint32, error) {
	return r.cfg.Engine.Admit(call, policy.RunsRead|policy.RunsWrite)
}

// figure is a position as a refusal's figure, which is signed.
func figure(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
