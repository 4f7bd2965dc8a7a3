package query

import (
	"context"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// This file has the lookups that callers need to render runs and records.

// Graph returns the compiled control flow of a state's run: the events of its states and the types
// of its artifacts. Read only.
func (r *Service) Graph(ctx context.Context, namespace string, s *machine.State) (*machine.Graph, error) {
	ns, err := r.cfg.Engine.Namespace(namespace)
	if err != nil {
		return nil, err
	}
	prog, err := r.cfg.Programs.Of(ctx, ns, s)
	if err != nil {
		return nil, err
	}
	return prog.Graph, nil
}

// PackOf returns the pack that a state's run was started with. Read only.
func (r *Service) PackOf(ctx context.Context, namespace string, s *machine.State) (*pack.Pack, error) {
	ns, err := r.cfg.Engine.Namespace(namespace)
	if err != nil {
		return nil, err
	}
	prog, err := r.cfg.Programs.Of(ctx, ns, s)
	if err != nil {
		return nil, err
	}
	return prog.Pack, nil
}

// PackFor returns the state and the pack of a run that the caller may see, even if it may not read
// it. Read only.
func (r *Service) PackFor(ctx context.Context, ref runtime.RunRef) (*machine.State, *pack.Pack, error) {
	key, err := r.cfg.Engine.Find(ref)
	if err != nil {
		return nil, nil, err
	}
	s, err := r.cfg.Engine.StateOf(ctx, key, 0)
	if err != nil {
		return nil, nil, err
	}
	prog, err := r.cfg.Programs.Of(ctx, key.Namespace, s)
	if err != nil {
		return nil, nil, err
	}
	return s, prog.Pack, nil
}

// VariablesOf returns the variables that a state's run was started or forked with, with defaults
// applied, as one compact JSON object.
func (r *Service) VariablesOf(ctx context.Context, namespace string, s *machine.State) ([]byte, error) {
	ns, err := r.cfg.Engine.Namespace(namespace)
	if err != nil {
		return nil, err
	}
	return r.cfg.Past.Variables(ctx, runtime.RunKey{Namespace: ns, ID: s.RunID})
}

// CursorAt returns the cursor after the i-th record of a committed entry, the same as that of a
// watch.
func (r *Service) CursorAt(entry *machine.Entry, i int) runtime.Cursor {
	return runtime.Cursor{Epoch: r.cfg.Store.Epoch(), Position: entry.Cursor, Index: uint16(i)}
}
