package blob

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// Engine is the part of the runtime engine that blobs use.
type Engine interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Health returns nil if the engine accepts inputs. Otherwise it returns the reason why the engine
	// does not accept them.
	Health() error
	// NamespaceNumbers returns the served namespaces.
	NamespaceNumbers() []uint32
}

// Config configures a [Service]. Engine, Clock and IDs are required. The other fields have a default, which the zero value selects.
type Config struct {
	Engine Engine
	Clock  runtime.Clock
	IDs    runtime.IDs
	// Store stores the blobs. If it is nil, blobs are disabled (BLOBS_OFF).
	Store Store
	// MaxBytes bounds one blob, in bytes. Default [DefaultMaxBytes].
	MaxBytes int64
	// Grace is how long an unreferenced blob is kept. Default [DefaultGrace].
	Grace time.Duration
}

// Service stores, reads and sweeps blobs. It has no state besides its configuration and needs no lock. Safe for concurrent use.
type Service struct{ cfg Config }

// New checks the configuration, returns all errors at once, and starts no goroutine.
func New(cfg Config) (*Service, error) {
	var faults []error
	if cfg.Engine == nil || cfg.Clock == nil || cfg.IDs == nil {
		faults = append(faults, errors.New("the configuration needs Engine, Clock and IDs"))
	}
	if cfg.MaxBytes < 0 {
		faults = append(faults, fmt.Errorf("MaxBytes is %d; want 0 (the default) or more", cfg.MaxBytes))
	}
	if cfg.Grace < 0 {
		faults = append(faults, fmt.Errorf("the Grace is %v; want 0 (the default) or more", cfg.Grace))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("blob: configuration: %w", err)
	}
	cfg.MaxBytes, cfg.Grace = cmp.Or(cfg.MaxBytes, DefaultMaxBytes), cmp.Or(cfg.Grace, DefaultGrace)
	return &Service{cfg: cfg}, nil
}
