package timetravel

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// These constants bound the result of one comparison.
const (
	maxPath    = 1000
	maxChanges = 1000
	maxText    = 256 << 10
	// maxForkDepth bounds how many forks are followed back from a run: to the run it was forked from, to the run that
	// one was forked from, and so on.
	maxForkDepth = 16
)

// DiffRequest is the argument of [Service.DiffRuns]. runtime.RunRef is the first run.
type DiffRequest struct {
	runtime.RunRef
	// Seq and OtherSeq are the records at which the two runs are compared. 0 means the newest state.
	// Other is the id of the second run; "" means the first run.
	Seq      uint64
	Other    string
	OtherSeq uint64
}

// RunPoint is the state of a run at a record, as one side of a comparison.
type RunPoint struct {
	State *machine.State
	// Messages is the number of messages in all conversations of the run.
	Messages int
}

// PathStep is one state in the path of a run: a Transition, or the Origin of a fork whose source is
// not in this store.
type PathStep struct {
	RunID        string
	Seq          uint64
	Event, State string
}

// Diff is the difference between two runs, each at one record.
type Diff struct {
	Base, Other RunPoint
	// Common is the number of states that both paths have in common at their beginning. The paths
	// contain only the states after them.
	Common                 int
	BasePath, OtherPath    []PathStep
	Visits, Edges, Budgets []machine.CountChange
	Artifacts              []ArtifactChange
	Variables              []ValueChange
	// Truncated reports whether a path was longer than its bound and was cut.
	Truncated bool
}

// DiffRuns compares two runs, or one run at two records (docs/reference/semantics.md §12). It changes
// no data.
func (r *Service) DiffRuns(ctx context.Context, req DiffRequest) (Diff, error) {
	key, err := r.cfg.Engine.FindReadable(req.RunRef)
	if err != nil {
		return Diff{}, err
	}
	other := key
	if req.Other != "" {
		other.ID = req.Other
	}
	base, err := r.point(ctx, key, req.Seq)
	if err != nil {
		return Diff{}, err
	}
	against, err := r.point(ctx, other, req.OtherSeq)
	if err != nil {
		return Diff{}, err
	}
	d := Diff{
		Base: base.RunPoint, Other: against.RunPoint,
		Visits: rules.DiffVisits(base.State, against.State), Edges: rules.DiffEdges(base.State, against.State),
		Budgets: rules.DiffBudgets(base.State, against.State),
	}
	d.paths(base.path, against.path)
	if d.Artifacts, err = diffArtifacts(base.artifacts, against.artifacts); err != nil {
		return Diff{}, err
	}
	d.Variables, _, err = diffJSON(base.variables, against.variables)
	return d, err
}

// point is all data of a run at a record that is compared.
type point struct {
	RunPoint
	path      []PathStep
	artifacts []history.Artifact
	variables []byte
}

// point reads everything that a comparison needs of a run at a record.
func (r *Service) point(ctx context.Context, key runtime.RunKey, seq uint64) (point, error) {
	var p point
	var err error
	if p.State, err = r.cfg.Engine.StateOf(ctx, key, seq); err == nil {
		err = p.State.CheckNotErased()
	}
	if err != nil {
		return p, err
	}
	// All data is compared as it was at the end of the commit that contains the record.
	at := p.State.Seq
	if p.artifacts, err = r.cfg.Past.Artifacts(ctx, key, p.State, at); err != nil {
		return p, err
	}
	if p.variables, err = r.cfg.Past.Variables(ctx, key); err != nil {
		return p, err
	}
	for _, window := range p.State.Conversations {
		messages, err := r.cfg.Past.Conversation(ctx, key, window)
		if err != nil {
			return p, err
		}
		p.Messages += len(messages)
	}
	p.path, err = r.path(ctx, key, at, 0)
	return p, err
}

// path returns the states that a run has entered up to the record last. The path of a fork begins with
// the path of its source, if the source is in this store.
func (r *Service) path(ctx context.Context, key runtime.RunKey, last uint64, depth int) ([]PathStep, error) {
	var path []PathStep
	for next := uint64(1); next <= last; {
		entries, err := r.cfg.Store.Entries(ctx, key.Namespace, key.ID, next, history.Page)
		if err != nil {
			return nil, fmt.Errorf("timetravel: read run %s from record %d: %w", key.ID, next, err)
		}
		if len(entries) == 0 {
			return nil, fmt.Errorf("timetravel: run %s: %w: %d", key.ID, machine.ErrNoRecord, next)
		}
		for i := range entries {
			if err := entries[i].CheckNotErased(); err != nil {
				return nil, err
			}
			for j := range entries[i].Records {
				rec := &entries[i].Records[j]
				if rec.Seq > last {
					return path, nil
				}
				steps, err := r.stepOf(ctx, key, rec, depth)
				if err != nil {
					return nil, err
				}
				path = append(path, steps...)
			}
			next = entries[i].First + uint64(len(entries[i].Records))
		}
	}
	return path, nil
}

// stepOf returns the steps of a path that a record adds: the entered state, or for the Origin of a fork the path
// of its source and the state of the copy.
func (r *Service) stepOf(ctx context.Context, key runtime.RunKey, rec *machine.Record, depth int) ([]PathStep, error) {
	switch b := rec.Body.(type) {
	case *machine.Transition:
		return []PathStep{{RunID: key.ID, Seq: rec.Seq, Event: b.Event, State: b.To}}, nil
	case *machine.Origin:
		alone := []PathStep{{RunID: key.ID, Seq: rec.Seq, State: b.State.Current}}
		if depth == maxForkDepth {
			return alone, nil
		}
		source := runtime.RunKey{Namespace: key.Namespace, ID: b.RunID}
		if head, err := r.cfg.Engine.Head(ctx, source); err != nil || head.Seq < b.State.Seq {
			return alone, notFoundIsNil(err)
		}
		return r.path(ctx, source, b.State.Seq, depth+1)
	}
	return nil, nil
}

// notFoundIsNil returns nil for the error that the source of a fork does not exist. Other errors are
// returned unchanged.
func notFoundIsNil(err error) error {
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Code == machine.CodeNotFound {
		return nil
	}
	return err
}

// paths stores two paths without the states that both have in common at their beginning.
func (d *Diff) paths(a, b []PathStep) {
	for d.Common < len(a) && d.Common < len(b) && a[d.Common].Event == b[d.Common].Event && a[d.Common].State == b[d.Common].State {
		d.Common++
	}
	d.BasePath, d.OtherPath = a[d.Common:], b[d.Common:]
	d.Truncated = len(d.BasePath) > maxPath || len(d.OtherPath) > maxPath
	d.BasePath, d.OtherPath = d.BasePath[:min(len(d.BasePath), maxPath)], d.OtherPath[:min(len(d.OtherPath), maxPath)]
}
