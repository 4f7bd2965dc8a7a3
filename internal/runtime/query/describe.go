package query

import (
	"context"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// The methods below return what is needed to show runs and records.

// Graph returns the compiled control flow of a state's run, with the events of the workflow states and
// the types of the artifacts. The caller must not change it.
func (r *Service) Graph(ctx context.Context, namespace string, s *machine.State) (*machine.Graph, error) {
	ns, err := r.cfg.Engine.Namespace(namespace)
	if err != nil {
		return nil, err
	}
	prog, err := r.cfg.Programs.ProgramOf(ctx, ns, s)
	if err != nil {
		return nil, err
	}
	return prog.Graph, nil
}

// PackOf returns the pack with which the run of a state was started. The caller must not change it.
func (r *Service) PackOf(ctx context.Context, namespace string, s *machine.State) (*pack.Pack, error) {
	ns, err := r.cfg.Engine.Namespace(namespace)
	if err != nil {
		return nil, err
	}
	prog, err := r.cfg.Programs.ProgramOf(ctx, ns, s)
	if err != nil {
		return nil, err
	}
	return prog.Pack, nil
}

// PackFor returns the newest state and the pack of a run. The caller needs only the right to see the
// run, not the right to read it. The caller must not change the result.
func (r *Service) PackFor(ctx context.Context, ref runtime.RunRef) (*machine.State, *pack.Pack, error) {
	key, err := r.cfg.Engine.Find(ref)
	if err != nil {
		return nil, nil, err
	}
	s, err := r.cfg.Engine.StateOf(ctx, key, 0)
	if err != nil {
		return nil, nil, err
	}
	prog, err := r.cfg.Programs.ProgramOf(ctx, key.Namespace, s)
	if err != nil {
		return nil, nil, err
	}
	return s, prog.Pack, nil
}

// VariablesOf returns the variables with which a state's run was started or forked, as one compact JSON
// object with the default values.
func (r *Service) VariablesOf(ctx context.Context, namespace string, s *machine.State) ([]byte, error) {
	ns, err := r.cfg.Engine.Namespace(namespace)
	if err != nil {
		return nil, err
	}
	return r.cfg.Past.Variables(ctx, runtime.RunKey{Namespace: ns, ID: s.RunID})
}
