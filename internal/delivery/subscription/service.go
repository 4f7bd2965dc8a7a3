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
	// Admit returns the number of a namespace. If the caller has none of the scopes in the namespace,
	// it returns an error.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// NamespaceNumbers returns the served namespaces.
	NamespaceNumbers() []uint32
}

// Journal provides the end of the records of a namespace.
type Journal interface {
	// Tail returns the newest position of a namespace. Epoch returns the id of the store. Cursors
	// contain this id.
	Tail(ctx context.Context, ns uint32) (uint64, error)
	Epoch() [16]byte
}

// Config configures a [Service]. All fields except Quotas and Retention are required.
type Config struct {
	Engine  Engine
	Store   Store
	Journal Journal
	Clock   runtime.Clock
	// Quotas limits the number of webhooks and consumers of each namespace, in addition to the fixed
	// limits. If Quotas is nil, there are no quotas.
	Quotas    *quota.Limits
	Retention RetentionConfig
}

// Service stores subscriptions. Safe for concurrent use.
type Service struct {
	cfg Config
	// consumers has the open watches of consumers.
	consumers *consumers
	// locks serializes the changes of each subscription.
	locks *subscriptionLocks
}

// New checks the configuration. It starts no goroutine.
func New(cfg Config) (*Service, error) {
	if cfg.Engine == nil || cfg.Store == nil || cfg.Journal == nil || cfg.Clock == nil {
		return nil, errors.New("subscription: configuration: Engine, Store, Journal and Clock are required")
	}
	if cfg.Retention.DeadLetters == nil && (cfg.Retention.DeadLetterRetention != 0 || cfg.Retention.MaxDeadLetters != 0) {
		return nil, errors.New("subscription: configuration: Retention.DeadLetterRetention and Retention.MaxDeadLetters need Retention.DeadLetters")
	}
	return &Service{cfg: cfg, consumers: newConsumers(cfg.Clock), locks: newSubscriptionLocks()}, nil
}

// readableNamespace returns the number of a namespace. If the caller may neither read nor change the runs in the
// namespace, it returns an error.
func (r *Service) readableNamespace(call runtime.Call) (uint32, error) {
	return r.cfg.Engine.Admit(call, policy.RunsRead|policy.RunsWrite)
}

// toInt64 converts a position to the signed number that an error contains.
func toInt64(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
