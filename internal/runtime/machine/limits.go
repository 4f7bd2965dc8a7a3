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

// MaxDepth bounds delegations below delegations.
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
	// DefaultDelegationTimeout holds for tools that are agents: their runs are
	// bounded by their own budgets and the remaining wall time.
	DefaultDelegationTimeout = 24 * time.Hour
	DefaultMaxPendingSteps   = 8
	// DefaultTurnTokens is a turn of an agent whose prompt bounds no answer: one answer of
	// 4096 tokens, and as much for what it is asked.
	DefaultTurnTokens = 2 * 4096
)

// What holds for calls of models.
const (
	DefaultModelTimeout  = 600 * time.Second
	DefaultModelAttempts = 3
)
