package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// program is a pack compiled for one entry. Immutable.
type program struct {
	pack  *pack.Pack
	graph *machine.Graph
}

// maxPrograms bounds the compiled programs and the packs held in memory.
const maxPrograms = 512

type programKey struct {
	digest string
	entry  pack.Entry
}

type refKey struct {
	ns  uint32
	ref string
}

// programs loads and compiles packs once. A digest is content, so neither packs
// nor programs ever go stale; references do, when a pack is registered.
type programs struct {
	store Store
	opts  pack.Options

	mu       sync.RWMutex
	compiled map[programKey]*program
	packs    map[string]*pack.Pack
	refs     map[refKey]string
	// epoch counts the registrations: a reference that was looked up before one
	// is not remembered after it.
	epoch int
}

func newPrograms(store Store, opts pack.Options) *programs {
	return &programs{
		store: store, opts: opts,
		compiled: make(map[programKey]*program), packs: make(map[string]*pack.Pack), refs: make(map[refKey]string),
	}
}

// of returns the program that a run was started with.
func (p *programs) of(ctx context.Context, ns uint32, s *machine.State) (*program, error) {
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

// start returns the program for a run that is to begin.
func (p *programs) start(ctx context.Context, ns uint32, ref string, entry pack.Entry) (*program, error) {
	digest, err := p.resolve(ctx, ns, ref)
	if err != nil {
		return nil, err
	}
	return p.get(ctx, ns, programKey{digest: digest, entry: entry})
}

// get compiles a pack for an entry, once.
func (p *programs) get(ctx context.Context, ns uint32, key programKey) (*program, error) {
	p.mu.RLock()
	prog := p.compiled[key]
	p.mu.RUnlock()
	if prog != nil {
		return prog, nil
	}
	loaded, err := p.pack(ctx, ns, key.digest)
	if err != nil {
		return nil, err
	}
	graph, err := loaded.Compile(key.entry)
	if err != nil {
		return nil, entryRefused(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if prog := p.compiled[key]; prog != nil {
		return prog, nil
	}
	if len(p.compiled) >= maxPrograms {
		clear(p.compiled)
	}
	prog = &program{pack: loaded, graph: graph}
	p.compiled[key] = prog
	return prog, nil
}

// entryRefused gives an entry that the pack does not have its typed form.
func entryRefused(err error) error {
	var entry *pack.EntryError
	if !errors.As(err, &entry) {
		return err
	}
	code := machine.CodeInvalidArgument
	if entry.Name == "" {
		code = machine.CodeFailedPrecondition
	}
	return &machine.Refusal{
		Code: code, Reason: "NO_SUCH_ENTRY", Field: entry.Field, Message: entry.Error(), Allowed: entry.Allowed,
	}
}

// resolve turns a reference into a digest.
func (p *programs) resolve(ctx context.Context, ns uint32, ref string) (string, error) {
	key := refKey{ns: ns, ref: ref}
	p.mu.RLock()
	digest, epoch := p.refs[key], p.epoch
	p.mu.RUnlock()
	if digest != "" {
		return digest, nil
	}
	row, err := p.row(ctx, ns, ref)
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.epoch == epoch {
		if len(p.refs) >= maxPrograms {
			clear(p.refs)
		}
		p.refs[key] = row.Digest
	}
	return row.Digest, nil
}

// registered forgets what references mean.
func (p *programs) registered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	clear(p.refs)
}

// pack returns a checked pack by its digest.
func (p *programs) pack(ctx context.Context, ns uint32, digest string) (*pack.Pack, error) {
	p.mu.RLock()
	loaded := p.packs[digest]
	p.mu.RUnlock()
	if loaded != nil {
		return loaded, nil
	}
	row, err := p.row(ctx, ns, digest)
	if err != nil {
		return nil, err
	}
	loaded, found, err := pack.Load(row.Canonical, pack.Options{Limits: p.opts.Limits})
	if err != nil {
		return nil, fmt.Errorf("runtime: pack %s: %w", digest, err)
	}
	if loaded == nil {
		return nil, fmt.Errorf("runtime: stored pack %s is not accepted any more: %v", digest, found)
	}
	if len(row.Source) > 0 {
		loaded.Source = row.Source
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.packs) >= maxPrograms {
		clear(p.packs)
	}
	p.packs[digest] = loaded
	return loaded, nil
}

func (p *programs) row(ctx context.Context, ns uint32, ref string) (machine.PackRow, error) {
	row, err := p.store.Pack(ctx, ns, ref)
	if errors.Is(err, machine.ErrNoPack) {
		return row, &machine.Refusal{
			Code: machine.CodeNotFound, Reason: "PACK_NOT_FOUND", Field: "pack",
			Message: fmt.Sprintf("no pack is registered under %q", ref),
		}
	}
	if err != nil {
		return row, fmt.Errorf("runtime: read pack %q: %w", ref, err)
	}
	return row, nil
}
