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
	// Inside calls do if the engine accepts inputs. If do returns [machine.ErrIndeterminate], the
	// engine fails.
	Inside(do func() error) error
}

// Store stores packs.
type Store interface {
	// PutPack registers a pack. If the same bytes are registered again, it returns the same row. If
	// other bytes already have the name, the error is a *machine.Error PACK_VERSION_TAKEN.
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
	// Quotas bounds the number of pack names in a namespace. If it is nil, there is no bound.
	Quotas *quota.Limits
}

// Registry registers and returns packs. The cache resolves references. The registry notifies the cache
// of each registration. Safe for concurrent use.
type Registry struct {
	cfg Config
	// counting serializes registrations in namespaces with a quota.
	counting sync.Mutex
}

// New returns a Registry and starts no goroutine.
func New(cfg Config) *Registry { return &Registry{cfg: cfg} }
