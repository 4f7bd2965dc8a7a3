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

// Program is a pack compiled for one entry: one state or agent in which runs begin. It is immutable.
type Program struct {
	Pack  *pack.Pack
	Graph *machine.Graph
	// Conditions are the compiled approval conditions by tool. A condition that does not compile any more is
	// nil. The calls of its tool then always wait for approval.
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

// Shelf is the part of the store that a [Cache] uses.
type Shelf interface {
	// Pack returns the pack of a reference "id", "id@version" or "sha256:<hex>". Error: [machine.ErrNoPack].
	Pack(ctx context.Context, ns uint32, ref string) (machine.PackRow, error)
}

// maxRefs bounds the cached pairs of a pack reference and its digest.
const maxRefs = 512

// maxHeldBytes bounds the cached packs and programs, in bytes of their documents. Each program counts as
// much as its pack. A parsed and compiled document needs about ten times as much memory.
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

// bytes returns the size that the cache counts for the pack and its compiled programs.
func (h *heldPack) bytes() int { return len(h.pack.Canonical) * (1 + len(h.compiled)) }

type refKey struct {
	ns  uint32
	ref string
}

// Cache loads and compiles each pack once. A digest identifies the content of a pack, so cached packs never
// become out of date. A cached reference can, when a pack is registered, and is then removed. Safe for
// concurrent use.
type Cache struct {
	store Shelf
	opts  pack.Options

	// loading merges concurrent loads of one pack, by digest. compiling merges concurrent
	// compilations of one program, by digest and entry.
	loading, compiling singleflight.Group

	mu sync.Mutex
	// packs are the cached packs by digest. Their size is at most limit bytes, except if a single pack is
	// larger.
	packs *cache.LRU[string, *heldPack]
	limit int
	refs  *cache.LRU[refKey, string]
	// epoch is the number of registrations so far. A reference that was looked up before a registration is
	// not cached after it. registering is the number of registrations in progress. While it is not 0,
	// references are resolved only from the store.
	epoch, registering int
}

// NewCache returns a Cache of a store. opts are the options for checking packs.
func NewCache(store Shelf, opts pack.Options) *Cache { return newCache(store, opts, maxHeldBytes) }

func newCache(store Shelf, opts pack.Options, limit int) *Cache {
	return &Cache{
		store: store, opts: opts, limit: limit,
		packs: cache.New[string, *heldPack](limit), refs: cache.New[refKey, string](maxRefs),
	}
}

// ProgramOf returns the compiled pack with which the run of a state was started.
func (p *Cache) ProgramOf(ctx context.Context, ns uint32, s *machine.State) (*Program, error) {
	entry := pack.Entry{Agent: s.Agent}
	if s.EntryOverride {
		entry.State = s.Entry
	}
	prog, err := p.loadProgram(ctx, ns, programKey{digest: s.Digest, entry: entry})
	if err != nil {
		return nil, fmt.Errorf("runtime: run %s: %w", s.RunID, err)
	}
	return prog, nil
}

// Start returns the compiled pack for a new run that begins at the entry.
func (p *Cache) Start(ctx context.Context, ns uint32, ref string, entry pack.Entry) (*Program, error) {
	digest, err := p.Resolve(ctx, ns, ref)
	if err != nil {
		return nil, err
	}
	prog, err := p.loadProgram(ctx, ns, programKey{digest: digest, entry: entry})
	if err != nil {
		return nil, err
	}
	if err := prog.Pack.Supports(entry); err != nil {
		return nil, EntryRefused(err)
	}
	return prog, nil
}

// loadProgram returns the pack with this digest compiled for an entry, from the cache if possible. Concurrent calls
// compile it only once.
func (p *Cache) loadProgram(ctx context.Context, ns uint32, key programKey) (*Program, error) {
	if prog := p.cachedProgram(key); prog != nil {
		return prog, nil
	}
	loaded, err := p.Pack(ctx, ns, key.digest)
	if err != nil {
		return nil, err
	}
	prog, err, _ := p.compiling.Do(fmt.Sprintf("%s %q %q", key.digest, key.entry.Agent, key.entry.State), func() (any, error) {
		if prog := p.cachedProgram(key); prog != nil {
			return prog, nil
		}
		graph, err := loaded.Compile(key.entry)
		if err != nil {
			return nil, EntryRefused(err)
		}
		return p.cacheProgram(loaded, &key.entry, graph), nil
	})
	if err != nil {
		return nil, err
	}
	return prog.(*Program), nil
}

func (p *Cache) cachedProgram(key programKey) *Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, ok := p.packs.Get(key.digest); ok {
		return h.compiled[key.entry]
	}
	return nil
}

// cacheProgram caches a pack and, if entry is not nil, its program for that entry. The packs that were used longest
// ago are removed. If a single pack with its programs exceeds the limit, its programs are not kept.
func (p *Cache) cacheProgram(loaded *pack.Pack, entry *pack.Entry, graph *machine.Graph) *Program {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, ok := p.packs.Get(loaded.Digest)
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
	p.packs.Put(loaded.Digest, h, h.bytes())
	return prog
}

// EntryRefused converts an error about the entry of a pack. If the pack does not have the entry, the result
// is INVALID_ARGUMENT NO_SUCH_ENTRY, which lists the allowed entries. If the entry needs a feature that this
// program does not support, it is FAILED_PRECONDITION PACK_UNSUPPORTED. Other errors are returned unchanged.
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

// Resolve returns the digest of the pack to which a reference ("id", "id@version" or digest) refers.
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

// Registering must be called before a pack is registered in the store. The returned function must be called
// afterwards. It removes all cached references.
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

// loaded returns the cached pack with the digest, or nil if it is not cached.
func (p *Cache) loaded(digest string) *pack.Pack {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, ok := p.packs.Get(digest); ok {
		return h.pack
	}
	return nil
}

// Pack returns the pack with the digest, from the cache or from the store.
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

// load parses and checks a stored pack, and caches it. If another call has cached it in the meantime, load
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
	p.cacheProgram(loaded, nil, nil)
	return loaded, nil
}

// Row reads the stored row of a pack. Error: NOT_FOUND PACK_NOT_FOUND.
func (p *Cache) Row(ctx context.Context, ns uint32, ref string) (machine.PackRow, error) {
	row, err := p.store.Pack(ctx, ns, ref)
	if errors.Is(err, machine.ErrNoPack) {
		return row, &machine.Error{
			Code: machine.CodeNotFound, Reason: "PACK_NOT_FOUND", Field: "pack",
			Message: fmt.Sprintf("no pack is registered under %q; ListPacks (`pawl packs list`) lists the registered packs", ref),
		}
	}
	if err != nil {
		return row, fmt.Errorf("runtime: read pack %q: %w", ref, err)
	}
	return row, nil
}
