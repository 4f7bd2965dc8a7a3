package blob

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// Engine is what the room needs of the way of a transition.
type Engine interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Health is nil while inputs are taken, else why they are not.
	Health() error
	// NamespaceNumbers are those that are served.
	NamespaceNumbers() []uint32
}

// Config is everything that a [Service] needs. Engine, Clock and IDs are required; zero
// fields of the rest take their default.
type Config struct {
	Engine Engine
	Clock  runtime.Clock
	IDs    runtime.IDs
	// Store keeps the blobs; nil: there are none (BLOBS_OFF).
	Store Store
	// MaxBytes bounds one blob. Default [DefaultMaxBytes].
	MaxBytes int64
	// Grace is how long a blob is kept that nothing refers to. Default [DefaultGrace].
	Grace time.Duration
}

// Service takes, gives and sweeps blobs. Its owner is the wiring; it holds no state but
// its configuration, so that it needs no lock. Safe for concurrent use.
type Service struct{ cfg Config }

// New checks the configuration, all faults at once; it starts nothing.
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
