package blob

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
)

// Engine is the part of the runtime engine that a [Service] uses.
type Engine interface {
	// Admit checks that the caller has one of the scopes, and returns the number of the namespace of the call.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Health returns nil if the engine accepts inputs. Otherwise the error says why it does not.
	Health() error
	// NamespaceNumbers returns the numbers of the configured namespaces.
	NamespaceNumbers() []uint32
}

// Config configures a [Service]. Engine, Clock and IDs are required. All other fields are optional, and their zero
// values select the defaults.
type Config struct {
	Engine Engine
	Clock  runtime.Clock
	IDs    runtime.IDs
	// Store stores the blobs. If it is nil, every request fails with BLOBS_OFF.
	Store Store
	// MaxBytes bounds one blob, in bytes. Default [DefaultMaxBytes].
	MaxBytes int64
	// Grace is how long a blob that no run refers to is kept after its last upload. Default [DefaultGrace].
	Grace time.Duration
}

// Service stores, reads and removes blobs. It has no state besides its configuration and needs no lock. Safe for
// concurrent use.
type Service struct{ cfg Config }

// New returns a Service. It returns one error with all faults of the configuration, and starts no goroutine.
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
