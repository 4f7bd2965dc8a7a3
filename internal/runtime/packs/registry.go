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

// Engine is the part of the runtime engine that a [Registry] uses.
type Engine interface {
	// Admit checks that the caller has one of the scopes, and returns the number of the namespace of
	// the call.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Namespace returns the number of a namespace by its name.
	Namespace(name string) (uint32, error)
	// DoInFlight calls do if the engine accepts inputs. If do returns [machine.ErrIndeterminate], the
	// engine stops accepting inputs.
	DoInFlight(do func() error) error
}

// Store is the part of the store that a [Registry] uses.
type Store interface {
	// PutPack registers a pack. Registering the same bytes a second time returns the existing row. If
	// other bytes have the same name and version, the error is a *machine.Error PACK_VERSION_TAKEN.
	PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error)
	// Pack returns the pack that a reference names: "id", "id@version" or "sha256:<hex>". Error:
	// [machine.ErrNoPack].
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

// Registry registers packs and returns them. It tells the cache of packs about each registration, so
// that no cached reference is out of date. Safe for concurrent use.
type Registry struct {
	cfg Config
	// The mutex counting is held during a registration in a namespace with a quota, so that concurrent
	// registrations cannot exceed the quota.
	counting sync.Mutex
}

// New returns a Registry and starts no goroutine.
func New(cfg Config) *Registry { return &Registry{cfg: cfg} }
