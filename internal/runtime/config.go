package runtime

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// Defaults of [Config].
const (
	DefaultQueueLimit       = 256
	DefaultCacheBytes       = 64 << 20
	DefaultMaxVariableBytes = 256 << 10
	DefaultMaxLabels        = 64
	DefaultMaxRunsInFlight  = 1_000_000
	DefaultMaxInputs        = 1024
	DefaultTimersInFlight   = 256
)

// DefaultNamespace is the namespace of calls that do not name a namespace. Its number is 0.
const DefaultNamespace = validate.DefaultNamespace

// Config configures an [Engine]. Store, Clock and IDs are required. The other fields have a default, which the zero value selects.
type Config struct {
	Store Store
	Clock Clock
	IDs   IDs

	// Limits are copied into every run at its start. The defaults are those of [machine.Limits].
	Limits machine.Limits
	// DefaultWallTime is the wall time of a run if neither its pack nor its start sets one; 0 = none.
	// MaxWallTime is the longest wall time of any run; 0 = no ceiling. Both are fixed at a run's start.
	DefaultWallTime, MaxWallTime time.Duration
	// AllowTools are the tools that runs may call. "*" allows every tool. The default is an empty list, which allows no tool.
	AllowTools []string
	// Namespaces assigns each namespace a number that is never reused. The namespace "default" always
	// exists and has the number 0.
	Namespaces validate.Namespaces
	// Pack has the options for reading registered documents.
	Pack pack.Options

	// Models returns the models that the sidecar itself can call, the default model first. If Models is nil or returns no model, the sidecar
	// executes no turns.
	Models func() []string
	// QueueLimit bounds the inputs that wait for one run. Default 256.
	QueueLimit int
	// CacheBytes bounds the run states held in memory. Default 64 MiB.
	CacheBytes int64
	// MaxVariableBytes bounds the variables of a run. Default 256 KiB.
	MaxVariableBytes int
	// MaxLabels bounds the labels of a run. Default 64.
	MaxLabels int
	// MaxRunsInFlight bounds the runs that have not ended. Default 1 000 000.
	MaxRunsInFlight int
	// Quotas limits how much a namespace and a principal may have, for example runs. If it is nil,
	// there are no quotas.
	Quotas *quota.Limits
	// Accounts are the operator's budgets over many runs; nil = no accounts.
	Accounts *budget.Ledger
	// Local reports whether the agent of a pack is another member of that pack in this store. If it is
	// not, the operator configures the address of the agent. If Local is nil, this is unknown, and the
	// usage of the agent is charged to the step.
	Local func(namespace uint32, pack, agent string) bool
	// Prices are the prices of models that packs do not price; nil = none.
	Prices *budget.Prices
	// MaxInputs bounds the inputs in flight, including those that wait for their commit. Above this number the engine rejects inputs that
	// start new work. Default 1024.
	MaxInputs int
	// TimersInFlight bounds the due timers that are fired at once. Default 256.
	TimersInFlight int

	// TraceShare is the share of runs that begin a trace of their own if their caller sent no trace
	// context. It is between 0 and 1. Default 0.
	TraceShare float64
}

func (c Config) withDefaults() Config {
	c.QueueLimit = orDefault(c.QueueLimit, DefaultQueueLimit)
	c.CacheBytes = orDefault(c.CacheBytes, DefaultCacheBytes)
	c.MaxVariableBytes = orDefault(c.MaxVariableBytes, DefaultMaxVariableBytes)
	c.MaxLabels = orDefault(c.MaxLabels, DefaultMaxLabels)
	c.MaxRunsInFlight = orDefault(c.MaxRunsInFlight, DefaultMaxRunsInFlight)
	c.MaxInputs = orDefault(c.MaxInputs, DefaultMaxInputs)
	c.TimersInFlight = orDefault(c.TimersInFlight, DefaultTimersInFlight)
	c.Namespaces = c.Namespaces.WithDefault()
	if c.Quotas == nil {
		c.Quotas = quota.New(c.Namespaces)
	}
	return c
}

func orDefault[N int | int64 | time.Duration](n, def N) N {
	if n == 0 {
		return def
	}
	return n
}

// validate returns one error with all faults of the configuration.
func (c Config) validate() error {
	var faults []error
	for _, part := range []struct {
		name    string
		missing bool
	}{{"Store", c.Store == nil}, {"Clock", c.Clock == nil}, {"IDs", c.IDs == nil}} {
		if part.missing {
			faults = append(faults, fmt.Errorf("%s is required", part.name))
		}
	}
	for _, bound := range []struct {
		name string
		n    int64
	}{
		{"QueueLimit", int64(c.QueueLimit)}, {"CacheBytes", c.CacheBytes},
		{"MaxVariableBytes", int64(c.MaxVariableBytes)}, {"MaxLabels", int64(c.MaxLabels)},
		{"MaxRunsInFlight", int64(c.MaxRunsInFlight)}, {"MaxInputs", int64(c.MaxInputs)},
		{"TimersInFlight", int64(c.TimersInFlight)},
		{"DefaultWallTime", int64(c.DefaultWallTime)}, {"MaxWallTime", int64(c.MaxWallTime)},
	} {
		if bound.n < 0 {
			faults = append(faults, fmt.Errorf("%s is %d; want 0 (the default) or more", bound.name, bound.n))
		}
	}
	if !(c.TraceShare >= 0 && c.TraceShare <= 1) {
		faults = append(faults, fmt.Errorf("TraceShare is %v; want 0 to 1", c.TraceShare))
	}
	return errors.Join(append(faults, c.Namespaces.Validate()...)...)
}

// Allowlist returns AllowTools in the form that the policy uses.
func (c Config) Allowlist() policy.Allowlist { return policy.NewAllowlist(c.AllowTools) }
