package machine

import (
	"time"
)

// Defaults of [RetryPolicy].
const (
	DefaultAttempts     = 3
	DefaultInitialPause = time.Second
	DefaultMaxPause     = time.Minute
)

// MaxDepth bounds the depth of nested delegations.
const MaxDepth = 8

// Defaults of [Limits].
const (
	DefaultMaxTransitions      = 10_000
	DefaultMaxArtifactBytes    = 64 << 10
	DefaultMaxRunArtifactBytes = 1 << 20
	DefaultMaxMessageBytes     = 4 << 20
	DefaultMaxQueuedInputs     = 16
)

// Defaults of [Tool] and of Graph.MaxPendingSteps.
const (
	DefaultStepTimeout = 300 * time.Second
	// DefaultDelegationTimeout is the timeout of tools that are agents. Their runs are also bounded by their own budgets and by the
	// remaining wall time.
	DefaultDelegationTimeout = 24 * time.Hour
	DefaultMaxPendingSteps   = 8
	// DefaultTurnTokens is the maximum consumption of one turn of an agent whose prompt does not bound
	// its answers. It allows 4096 tokens for one answer and 4096 tokens for the request.
	DefaultTurnTokens = 2 * 4096
)

// Defaults of model calls.
const (
	DefaultModelTimeout  = 600 * time.Second
	DefaultModelAttempts = 3
)
