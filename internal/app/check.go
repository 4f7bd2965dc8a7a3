package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store"
)

// checkedPackBytes bounds the packs that a check compiles: whatever limit they
// were registered under.
const checkedPackBytes = 64 << 20

// CheckReport counts what a check has proven to be in order.
type CheckReport = store.Report

// CheckFault is the first thing that a check found wrong.
type CheckFault = store.Fault

// ErrUnusable marks errors of a data directory that could not be looked at: it
// does not exist, is in use, or was written by a newer version.
var ErrUnusable = errors.New("the data directory cannot be checked")

// Check opens the store in a directory and proves every invariant of it. Errors:
// [ErrUnusable], or a *[CheckFault]. Nobody else may have the directory open.
func Check(ctx context.Context, dir string) (report CheckReport, err error) {
	s, err := openExisting(dir)
	if damage, ok := errors.AsType[*store.Damage](err); ok {
		return report, errors.Join(damage.Fault(), err)
	}
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	g := newGraphs(s)
	return s.Check(ctx, func(digest, entry, agent string, override bool) (*machine.Graph, error) {
		return g.find(ctx, digest, entry, agent, override)
	})
}

// openExisting opens the store in a directory that has one.
func openExisting(dir string) (*store.Store, error) {
	if held, err := store.Holds(dir); err != nil || !held {
		return nil, errors.Join(fmt.Errorf("%w: %s holds no store", ErrUnusable, dir), err)
	}
	s, err := store.Open(store.Options{Dir: dir})
	if errors.Is(err, store.ErrLocked) || errors.Is(err, store.ErrFormat) {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return s, err
}

type graphKey struct {
	digest string
	entry  pack.Entry
}

// graphs compiles the packs of a store for the entries of its runs, once each.
type graphs struct {
	store    *store.Store
	packs    map[string]*pack.Pack
	compiled map[graphKey]*machine.Graph
}

func newGraphs(s *store.Store) *graphs {
	return &graphs{store: s, packs: map[string]*pack.Pack{}, compiled: map[graphKey]*machine.Graph{}}
}

func (g *graphs) find(ctx context.Context, digest, entry, agent string, override bool) (*machine.Graph, error) {
	key := graphKey{digest: digest, entry: pack.Entry{Agent: agent}}
	if override {
		key.entry.State = entry
	}
	if graph := g.compiled[key]; graph != nil {
		return graph, nil
	}
	loaded, err := g.pack(ctx, digest)
	if err != nil {
		return nil, err
	}
	graph, err := loaded.Compile(key.entry)
	if err == nil {
		g.compiled[key] = graph
	}
	return graph, err
}

func (g *graphs) pack(ctx context.Context, digest string) (*pack.Pack, error) {
	if loaded := g.packs[digest]; loaded != nil {
		return loaded, nil
	}
	canonical, err := g.store.PackBytes(ctx, digest)
	if err != nil {
		return nil, err
	}
	loaded, found, err := pack.Load(canonical, pack.Options{Limits: pack.Limits{Bytes: checkedPackBytes}, Accepted: true})
	if err != nil {
		return nil, err
	}
	if loaded == nil {
		return nil, fmt.Errorf("pack %s has errors: %v", digest, found)
	}
	g.packs[digest] = loaded
	return loaded, nil
}
