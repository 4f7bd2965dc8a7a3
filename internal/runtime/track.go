package runtime

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// maxTracks bounds the runs that a watch remembers; what it forgets it finds
// out again from the journal.
const maxTracks = 8192

// recordFilter applies a [WatchFilter] to entries in order and gives each
// record the previous one of its run that passed.
type recordFilter struct {
	e         *Engine
	ns        uint32
	want      WatchFilter
	kinds     kindSet
	snapshots bool
	tracks    map[string]*track
}

// track is what a watch knows of one run.
type track struct {
	// skip: the run has not the properties asked for.
	skip bool
	// seq is the last record that was looked at, passed the last that passed.
	seq, passed uint64
	now         moment
	// graph is set only where a status or snapshots are asked for, state only for
	// snapshots.
	graph *machine.Graph
	state *machine.State
}

func newRecordFilter(e *Engine, ns uint32, want WatchFilter, snapshots bool) *recordFilter {
	return &recordFilter{
		e: e, ns: ns, want: want, kinds: newKindSet(want.Kinds), snapshots: snapshots,
		tracks: make(map[string]*track),
	}
}

// entry returns the records of an entry that pass, those that the caller has
// had already included. After an error the run is found out about anew.
func (f *recordFilter) entry(ctx context.Context, entry *machine.Entry) ([]RecordRow, error) {
	tr, err := f.track(ctx, entry)
	if err != nil || tr.skip {
		return nil, err
	}
	rows, err := f.take(ctx, tr, entry)
	if err != nil {
		delete(f.tracks, entry.RunID)
	}
	return rows, err
}

func (f *recordFilter) take(ctx context.Context, tr *track, entry *machine.Entry) (rows []RecordRow, err error) {
	var view *RunView
	if err := f.advance(tr, entry); err != nil {
		return nil, err
	}
	for i := range entry.Records {
		r := &entry.Records[i]
		tr.now = tr.now.after(r.Body, tr.graph)
		tr.seq = r.Seq
		if !f.want.matches(f.kinds, r.Body, tr.now) {
			continue
		}
		if f.snapshots {
			if view, err = f.snapshot(ctx, entry.RunID, tr.state, r.Seq); err != nil {
				return nil, err
			}
		}
		rows = append(rows, RecordRow{
			RunID: entry.RunID, Record: *r, PrevSeq: tr.passed,
			PrevHash: entry.PrevHash, Hash: entry.Hash, Snapshot: view,
		})
		tr.passed = r.Seq
	}
	return rows, nil
}

func (f *recordFilter) snapshot(ctx context.Context, run string, s *machine.State, seq uint64) (*RunView, error) {
	values, err := f.e.artifactsAt(ctx, runKey{ns: f.ns, id: run}, s, seq)
	if err != nil {
		return nil, err
	}
	return &RunView{State: s, Artifacts: values}, nil
}

// track returns what is known of the entry's run right before the entry.
func (f *recordFilter) track(ctx context.Context, entry *machine.Entry) (*track, error) {
	if tr := f.tracks[entry.RunID]; tr != nil && (tr.skip || tr.seq+1 == entry.First) {
		return tr, nil
	}
	if len(f.tracks) >= maxTracks {
		clear(f.tracks)
	}
	tr := &track{}
	if err := f.prime(ctx, tr, entry); err != nil {
		return nil, err
	}
	f.tracks[entry.RunID] = tr
	return tr, nil
}

// prime finds out what the filter needs of a run that it meets at an entry.
func (f *recordFilter) prime(ctx context.Context, tr *track, entry *machine.Entry) error {
	key := runKey{ns: f.ns, id: entry.RunID}
	if f.want.ofRuns() || f.snapshots || len(f.want.Status) > 0 {
		head, err := f.e.head(ctx, key)
		if err != nil {
			return err
		}
		if tr.skip = !f.want.takes(head); tr.skip {
			return nil
		}
		prog, err := f.e.programs.of(ctx, f.ns, head)
		if err != nil {
			return err
		}
		tr.graph = prog.graph
	}
	tr.seq = entry.First - 1
	switch {
	case entry.First == 1:
		return nil
	case f.want.ofMoments():
		return f.retrace(ctx, tr, key)
	}
	if f.snapshots {
		var err error
		if tr.state, err = f.e.replay(ctx, key, tr.graph, tr.seq); err != nil {
			return err
		}
	}
	if f.kinds.once() {
		return nil
	}
	return f.lookBack(ctx, tr, key)
}

// retrace follows a run from its start to the record before the track's.
func (f *recordFilter) retrace(ctx context.Context, tr *track, key runKey) error {
	for next := uint64(1); next <= tr.seq; {
		entries, err := f.e.store.Entries(ctx, key.ns, key.id, next, replayPage)
		if err != nil {
			return fmt.Errorf("runtime: read run %s from record %d: %w", key.id, next, err)
		}
		if len(entries) == 0 {
			return fmt.Errorf("runtime: run %s: %w: %d", key.id, machine.ErrNoRecord, next)
		}
		for i := range entries {
			if entries[i].First > tr.seq {
				return nil
			}
			if err := f.pass(tr, &entries[i]); err != nil {
				return err
			}
			next = entries[i].First + uint64(len(entries[i].Records))
		}
	}
	return nil
}

// pass follows one entry without telling its records.
func (f *recordFilter) pass(tr *track, entry *machine.Entry) error {
	if err := f.advance(tr, entry); err != nil {
		return err
	}
	for i := range entry.Records {
		r := &entry.Records[i]
		tr.now = tr.now.after(r.Body, tr.graph)
		if f.want.matches(f.kinds, r.Body, tr.now) {
			tr.passed = r.Seq
		}
	}
	return nil
}

// advance replays one entry where snapshots are asked for.
func (f *recordFilter) advance(tr *track, entry *machine.Entry) error {
	if !f.snapshots {
		return nil
	}
	result, err := replayEntry(tr.graph, tr.state, entry)
	if err != nil {
		return fmt.Errorf("runtime: replay run %s: %w", entry.RunID, err)
	}
	tr.state = result.State
	return nil
}

// lookBack finds the last record before the track's that passes by its kind.
func (f *recordFilter) lookBack(ctx context.Context, tr *track, key runKey) error {
	for seq := tr.seq; seq > 0; {
		entry, err := f.e.store.Entry(ctx, key.ns, key.id, seq)
		if err != nil {
			return fmt.Errorf("runtime: read record %d of run %s: %w", seq, key.id, err)
		}
		for i := len(entry.Records) - 1; i >= 0; i-- {
			if r := &entry.Records[i]; f.kinds.has(machine.RecordKindOf(r.Body)) {
				tr.passed = r.Seq
				return nil
			}
		}
		seq = entry.First - 1
	}
	return nil
}
