package packs

import (
	"context"
	"sync"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/quota"
)

// Engine is the part of the runtime engine that the registry uses.
type Engine interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Namespace resolves the name of a namespace.
	Namespace(name string) (uint32, error)
	// Inside calls do while the engine accepts inputs. The error [machine.ErrIndeterminate] of do
	// is fatal.
	Inside(do func() error) error
}

// Store stores packs.
type Store interface {
	// PutPack registers a pack; the same bytes again return the same row. An existing name with
	// other bytes is a *machine.Error PACK_VERSION_TAKEN.
	PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error)
	// Pack resolves "id", "id@version" or "sha256:<hex>"; [machine.ErrNoPack].
	Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error)
	// ListPacks lists packs, ordered by id and version.
	ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error)
}

// Config configures a [Registry]. Options and Quotas are optional; all other fields are required.
type Config struct {
	Engine   Engine
	Store    Store
	Programs *packcache.Cache
	Clock    runtime.Clock
	// Options are the options for reading registered documents.
	Options pack.Options
	// Quotas bounds the names of a namespace; nil = no bound.
	Quotas *quota.Limits
}

// Registry registers and returns packs. References are resolved by the cache, which it notifies of
// each registration. Safe for concurrent use.
type Registry struct {
	cfg Config
	// counting serializes registrations in namespaces with a quota.
	counting sync.Mutex
}

// New returns a Registry and starts no goroutine.
func New(cfg Config) *Registry { return &Registry{cfg: cfg} }
