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

// Engine is what the registry needs of the way of a transition.
type Engine interface {
	// Admit resolves a namespace for a caller that has one of the scopes.
	Admit(call runtime.Call, scopes runtime.Scopes) (uint32, error)
	// Namespace resolves a name.
	Namespace(name string) (uint32, error)
	// Inside calls do while inputs are taken; [machine.ErrIndeterminate] is fatal.
	Inside(do func() error) error
}

// Store is where packs are kept.
type Store interface {
	// PutPack registers; the same bytes again are the same answer. A taken name
	// with other bytes is a *machine.Refusal PACK_VERSION_TAKEN.
	PutPack(ctx context.Context, ns uint32, put machine.PackPut) (machine.PackRow, error)
	// Pack resolves "id", "id@version" or "sha256:<hex>"; [machine.ErrNoPack].
	Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error)
	// ListPacks orders by id and version.
	ListPacks(ctx context.Context, ns uint32, after string, limit int) ([]machine.PackRow, string, error)
}

// Config is everything that a [Registry] needs; all but Options is required.
type Config struct {
	Engine   Engine
	Store    Store
	Programs *packcache.Cache
	Clock    runtime.Clock
	// Options say how registered documents are read.
	Options pack.Options
	// Quotas bounds the names of a namespace; nil = nothing does.
	Quotas *quota.Limits
}

// Registry takes packs and tells them. What references mean is the cache's, which it tells
// of each registration. Safe for concurrent use.
type Registry struct {
	cfg Config
	// counting keeps registrations apart where their number is bounded.
	counting sync.Mutex
}

// New makes a registry; it starts nothing.
func New(cfg Config) *Registry { return &Registry{cfg: cfg} }
