package packcache

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/expr"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Program is a pack compiled for one entry. Immutable.
type Program struct {
	Pack  *pack.Pack
	Graph *machine.Graph
	// Conditions are the compiled approval conditions. The key is the tool. If a condition no longer
	// compiles, its value is nil, and the calls of its tool are held.
	Conditions map[string]*expr.Program
}

// conditionsOf compiles the approval conditions of a graph's tools.
func conditionsOf(g *machine.Graph) map[string]*expr.Program {
	var out map[string]*expr.Program
	for name := range g.Tools {
		a := g.Tools[name].Approval
		if a == nil || a.If == "" {
			continue
		}
		if out == nil {
			out = make(map[string]*expr.Program)
		}
		if p, err := pack.Condition(a.If); err == nil {
			out[name] = p
		}
	}
	return out
}

// Shelf is the part of the store that the cache uses.
type Shelf interface {
	// Pack returns the pack of a reference "id", "id@version" or "sha256:<hex>". Error: [machine.ErrNoPack].
	Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error)
}

// maxRefs bounds the references whose digest is cached.
const maxRefs = 512

// maxHeldBytes bounds the cached packs and programs. They are counted by the size of their documents in
// bytes. Each program counts as much as its pack. A parsed and compiled document takes about ten times
// this size in memory.
const maxHeldBytes = 32 << 20

type programKey struct {
	digest string
	entry  pack.Entry
}

// heldPack is a cached pack with its compiled programs.
type heldPack struct {
	pack     *pack.Pack
	compiled map[pack.Entry]*Program
}

// bytes returns the number of bytes that the cache counts for the entry.
func (h *heldPack) bytes() int { return len(h.pack.Canonical) * (1 + len(h.compiled)) }

type refKey struct {
	ns  uint32
	ref string
}

// Cache loads and compiles each pack once. A digest identifies the content, so cached packs and
// programs never become stale. A cached reference becomes stale when a pack is registered. Safe for
// concurrent use.
type Cache struct {
	store Shelf
	opts  pack.Options

	// loading merges concurrent loads of one pack, by digest. compiling merges concurrent
	// compilations of one program, by digest and entry.
	loading, compiling singleflight.Group

	mu sync.Mutex
	// held holds the cached packs by digest. Their size is at most limit bytes. An exception is a
	// single pack that is larger.
	held  *cache.LRU[string, *heldPack]
	limit int
	refs  *cache.LRU[refKey, string]
	// epoch counts the registrations. If a reference was looked up before a registration, it is not
	// cached after this registration. registering is the number of active registrations. While there is
	// one, references are resolved only from the store.
	epoch, registering int
}

// NewCache returns a Cache of a store. opts are the options for checking packs.
func NewCache(store Shelf, opts pack.Options) *Cache { return newCache(store, opts, maxHeldBytes) }

func newCache(store Shelf, opts pack.Options, limit int) *Cache {
	return &Cache{
		store: store, opts: opts, limit: limit,
		held: cache.New[string, *heldPack](limit), refs: cache.New[refKey, string](maxRefs),
	}
}

// Of returns the program that a run was started with.
func (p *Cache) Of(ctx context.Context, ns uint32, s *machine.State) (*Program, error) {
	entry := pack.Entry{Agent: s.Agent}
	if s.EntryOverride {
		entry.State = s.Entry
	}
	prog, err := p.get(ctx, ns, programKey{digest: s.Digest, entry: entry})
	if err != nil {
		return nil, fmt.Errorf("runtime: run %s: %w", s.RunID, err)
	}
	return prog, nil
}

// Start returns the program for a new run.
func (p *Cache) Start(ctx context.Context, ns uint32, ref string, entry pack.Entry) (*Program, error) {
	digest, err := p.Resolve(ctx, ns, ref)
	if err != nil {
		return nil, err
	}
	prog, err := p.get(ctx, ns, programKey{digest: digest, entry: entry})
	if err != nil {
		return nil, err
	}
	if err := prog.Pack.Supports(entry); err != nil {
		return nil, EntryRefused(err)
	}
	return prog, nil
}

// get compiles a pack for an entry, once.
func (p *Cache) get(ctx context.Context, ns uint32, key programKey) (*Program, error) {
	if prog := p.compiled(key); prog != nil {
		return prog, nil
	}
	loaded, err := p.Pack(ctx, ns, key.digest)
	if err != nil {
		return nil, err
	}
	prog, err, _ := p.compiling.Do(fmt.Sprintf("%s %q %q", key.digest, key.entry.Agent, key.entry.State), func() (any, error) {
		if prog := p.compiled(key); prog != nil {
			return prog, nil
		}
		graph, err := loaded.Compile(key.entry)
		if err != nil {
			return nil, EntryRefused(err)
		}
		return p.hold(loaded, &key.entry, graph), nil
	})
	if err != nil {
		return nil, err
	}
	return prog.(*Program), nil
}

func (p *Cache) compiled(key programKey) *Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, ok := p.held.Get(key.digest); ok {
		return h.compiled[key.entry]
	}
	return nil
}

// hold caches a pack and, if entry is not nil, its program for that entry. It evicts the least recently
// used packs. If a pack alone exceeds the limit, its programs are not kept.
func (p *Cache) hold(loaded *pack.Pack, entry *pack.Entry, graph *machine.Graph) *Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.held.Get(loaded.Digest)
	if !ok {
		h = &heldPack{pack: loaded, compiled: make(map[pack.Entry]*Program)}
	}
	var prog *Program
	if entry != nil {
		if prog = h.compiled[*entry]; prog == nil {
			prog = &Program{Pack: h.pack, Graph: graph, Conditions: conditionsOf(graph)}
			h.compiled[*entry] = prog
		}
	}
	if h.bytes() > p.limit {
		clear(h.compiled)
	}
	p.held.Put(loaded.Digest, h, h.bytes())
	return prog
}

// EntryRefused converts an error about the entry of a pack. If the pack does not have the entry, the
// result is INVALID_ARGUMENT NO_SUCH_ENTRY, which lists the allowed entries. If the entry needs a
// feature that this program does not support, the result is FAILED_PRECONDITION PACK_UNSUPPORTED. Other
// errors are returned unchanged.
func EntryRefused(err error) error {
	if unsupported, ok := errors.AsType[*pack.UnsupportedError](err); ok {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "PACK_UNSUPPORTED", Field: "pack",
			Message: fmt.Sprintf("%s (%s, at %s). %s", unsupported.Message, unsupported.Code, unsupported.Pointer, unsupported.Hint),
		}
	}
	var entry *pack.EntryError
	if !errors.As(err, &entry) {
		return err
	}
	return &machine.Error{
		Code: machine.CodeInvalidArgument, Reason: "NO_SUCH_ENTRY", Field: entry.Field, Message: entry.Text(), Allowed: entry.Allowed,
	}
}

// Resolve resolves a reference to a digest.
func (p *Cache) Resolve(ctx context.Context, ns uint32, ref string) (string, error) {
	key := refKey{ns: ns, ref: ref}
	p.mu.Lock()
	digest, known := p.refs.Get(key)
	epoch, sure := p.epoch, p.registering == 0
	p.mu.Unlock()
	if known && sure {
		return digest, nil
	}
	row, err := p.Row(ctx, ns, ref)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch == epoch && p.registering == 0 {
		p.refs.Put(key, row.Digest, 1)
	}
	return row.Digest, nil
}

// Registering starts a registration. The returned function ends it and clears all cached
// references.
func (p *Cache) Registering() (registered func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.registering++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.registering--
		p.epoch++
		p.refs.Clear()
	}
}

// loaded returns a cached pack, or nil.
func (p *Cache) loaded(digest string) *pack.Pack {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, ok := p.held.Get(digest); ok {
		return h.pack
	}
	return nil
}

// Pack returns a checked pack by its digest.
func (p *Cache) Pack(ctx context.Context, ns uint32, digest string) (*pack.Pack, error) {
	if loaded := p.loaded(digest); loaded != nil {
		return loaded, nil
	}
	row, err := p.Row(ctx, ns, digest)
	if err != nil {
		return nil, err
	}
	loaded, err, _ := p.loading.Do(digest, func() (any, error) { return p.load(row, digest) })
	if err != nil {
		return nil, err
	}
	return loaded.(*pack.Pack), nil
}

// load returns a stored pack after it has checked it. If the pack was cached in the meantime, load
// returns the cached pack.
func (p *Cache) load(row machine.PackRow, digest string) (*pack.Pack, error) {
	if loaded := p.loaded(digest); loaded != nil {
		return loaded, nil
	}
	loaded, found, err := pack.Load(row.Canonical, pack.Options{Limits: p.opts.Limits, Accepted: true})
	if err != nil {
		return nil, fmt.Errorf("runtime: pack %s: %w", digest, err)
	}
	if loaded == nil {
		return nil, fmt.Errorf("runtime: stored pack %s is not accepted any more: %v", digest, found)
	}
	if len(row.Source) > 0 {
		loaded.Source = row.Source
	}
	p.hold(loaded, nil, nil)
	return loaded, nil
}

// Row reads the stored row of a pack. Error: NOT_FOUND PACK_NOT_FOUND.
func (p *Cache) Row(ctx context.Context, ns uint32, ref string) (machine.PackRow, error) {
	row, err := p.store.Pack(ctx, ns, ref)
	if errors.Is(err, machine.ErrNoPack) {
		return row, &machine.Error{
			Code: machine.CodeNotFound, Reason: "PACK_NOT_FOUND", Field: "pack",
			Message: fmt.Sprintf("no pack is registered under %q", ref),
		}
	}
	if err != nil {
		return row, fmt.Errorf("runtime: read pack %q: %w", ref, err)
	}
	return row, nil
}
