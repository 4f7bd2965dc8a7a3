package streams

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// maxTracks bounds the number of runs whose data a watch remembers. The data of a forgotten run is
// computed from the journal when it is needed.
const maxTracks = 8192

// recordFilter applies a [Filter] to entries in order. To each matching record it adds the number of
// the previous matching record of the run. Not safe for concurrent use.
type recordFilter struct {
	r         *Service
	ns        uint32
	want      Filter
	kinds     kindSet
	snapshots bool
	// statuses reports whether each returned record must contain the status of its run.
	statuses bool
	// tracks are what the watch knows about the runs that it read most recently.
	tracks *cache.LRU[string, *track]
}

// track is what a watch knows about one run.
type track struct {
	// skip reports whether no record of the run can match, because the run lacks a selected property.
	skip bool
	// seq is the last record of the run that was examined. passed is the last one that matched the
	// filter.
	seq, passed uint64
	now         rules.Moment
	// graph is set only if the status or snapshots are needed. state is set only if snapshots are
	// needed.
	graph *machine.Graph
	state *machine.State
}

func newRecordFilter(r *Service, ns uint32, want Filter, snapshots bool) *recordFilter {
	return &recordFilter{
		r: r, ns: ns, want: want, kinds: newKindSet(want.Kinds), snapshots: snapshots,
		tracks: cache.New[string, *track](maxTracks),
	}
}

// entry returns the records of a journal entry that match the filter. They may include records that the
// caller has already received. After an error, the next call computes the data of the run from the
// journal.
func (f *recordFilter) entry(ctx context.Context, entry *machine.Entry) ([]runtime.RecordRow, error) {
	tr, err := f.track(ctx, entry)
	if err != nil || tr.skip {
		return nil, err
	}
	rows, err := f.take(ctx, tr, entry)
	// A run that has ended gets no further records except late usage of model calls, so its data is not
	// kept. Otherwise each of many slow readers would keep the data of all runs that it has read.
	if err != nil || endsRun(entry) {
		f.tracks.Remove(entry.RunID)
	}
	return rows, err
}

// endsRun reports whether the entry contains the end of its run.
func endsRun(entry *machine.Entry) bool {
	for i := range entry.Records {
		if _, ended := entry.Records[i].Body.(*machine.Ended); ended {
			return true
		}
	}
	return false
}

// take returns the records of an entry that match the filter, and advances the track of the entry's run.
func (f *recordFilter) take(ctx context.Context, tr *track, entry *machine.Entry) (rows []runtime.RecordRow, err error) {
	var view *runtime.RunView
	if err := f.advance(tr, entry); err != nil {
		return nil, err
	}
	status := f.status(tr, entry)
	for i := range entry.Records {
		r := &entry.Records[i]
		tr.now = tr.now.After(r.Body)
		tr.seq = r.Seq
		if !f.want.matches(f.kinds, r.Body, tr.now, tr.graph) {
			continue
		}
		if f.snapshots && !entry.Erased {
			if view, err = f.snapshot(ctx, entry.RunID, tr.state, r.Seq); err != nil {
				return nil, err
			}
		}
		rows = append(rows, runtime.RecordRow{
			RunID: entry.RunID, Record: *r, PrevSeq: tr.passed, Semantics: entry.Input.Semantics,
			PrevHash: entry.PrevHash, Hash: entry.Hash, Snapshot: view, Erased: entry.Erased, Status: status,
		})
		tr.passed = r.Seq
	}
	return rows, nil
}

// status returns the status of a run after an entry. It returns 0 if the caller did not ask for
// statuses.
func (f *recordFilter) status(tr *track, entry *machine.Entry) machine.Status {
	if !f.statuses {
		return 0
	}
	now := tr.now
	for i := range entry.Records {
		now = now.After(entry.Records[i].Body)
	}
	return now.Status(tr.graph)
}

func (f *recordFilter) snapshot(ctx context.Context, run string, s *machine.State, seq uint64) (*runtime.RunView, error) {
	values, err := f.r.cfg.Past.Artifacts(ctx, runtime.RunKey{Namespace: f.ns, ID: run}, s, seq)
	if err != nil {
		return nil, err
	}
	return &runtime.RunView{State: s, Artifacts: values}, nil
}

// track returns what the watch knows about the entry's run before the entry. If it knows nothing, it
// reads the journal.
func (f *recordFilter) track(ctx context.Context, entry *machine.Entry) (*track, error) {
	tr, ok := f.tracks.Get(entry.RunID)
	if ok && (tr.skip || tr.seq+1 == entry.First) {
		return tr, nil
	}
	tr = &track{}
	if err := f.prime(ctx, tr, entry); err != nil {
		return nil, err
	}
	f.tracks.Put(entry.RunID, tr, 1)
	return tr, nil
}

// prime computes what the watch must know about a run before the given entry, the first entry of the
// run that it reads.
func (f *recordFilter) prime(ctx context.Context, tr *track, entry *machine.Entry) error {
	key := runtime.RunKey{Namespace: f.ns, ID: entry.RunID}
	if f.want.ofRuns() || f.snapshots || f.statuses || len(f.want.Status) > 0 {
		head, err := f.r.cfg.Engine.Head(ctx, key)
		if err != nil {
			return err
		}
		if tr.skip = !f.want.matchesRun(head); tr.skip {
			return nil
		}
		prog, err := f.r.cfg.Programs.ProgramOf(ctx, f.ns, head)
		if err != nil {
			return err
		}
		tr.graph = prog.Graph
	}
	tr.seq = entry.First - 1
	if entry.First == 1 {
		return nil
	}
	if f.snapshots && !entry.Erased {
		var err error
		if tr.state, err = f.r.cfg.Past.Replay(ctx, key, tr.graph, tr.seq); err != nil {
			return err
		}
	}
	switch {
	case f.want.ofMoments() || f.statuses:
		return f.retrace(ctx, tr, key)
	case f.kinds.atMostOnce():
		return nil
	}
	return f.lookBack(ctx, tr, key)
}

// retrace computes the state and status of a run at the last record before the watch, and the last
// record that matched. It reads the visits backwards: the last visit determines the state and the
// status, and usually contains the last matching record.
func (f *recordFilter) retrace(ctx context.Context, tr *track, key runtime.RunKey) error {
	for last := tr.seq; last > 0; {
		first, err := f.visitStart(ctx, key, last)
		if err != nil {
			return err
		}
		now, passed, err := f.replayRecords(ctx, tr.graph, key, first, last)
		if err != nil {
			return err
		}
		if last == tr.seq {
			tr.now = now
		}
		if tr.passed = passed; passed > 0 {
			return nil
		}
		last = first - 1
	}
	return nil
}

// visitStart returns the last record at or before seq that begins a visit. If there is none, it returns
// 1.
func (f *recordFilter) visitStart(ctx context.Context, key runtime.RunKey, seq uint64) (uint64, error) {
	for seq > 0 {
		entry, err := f.r.cfg.Store.Entry(ctx, key.Namespace, key.ID, seq)
		if err != nil {
			return 0, fmt.Errorf("streams: read record %d of run %s: %w", seq, key.ID, err)
		}
		for ; seq >= entry.First; seq-- {
			switch entry.Records[seq-entry.First].Body.(type) {
			case *machine.Transition, *machine.Origin:
				return seq, nil
			}
		}
	}
	return 1, nil
}

// replayRecords reads the records from first to last of a run. The first record must begin a visit. replayRecords
// returns the state and status of the run after the last record, and the last of these records that
// matched.
func (f *recordFilter) replayRecords(ctx context.Context, g *machine.Graph, key runtime.RunKey, first, last uint64) (now rules.Moment, passed uint64, err error) {
	for next := first; next <= last; {
		page := history.Page
		page.Records = int(min(uint64(page.Records), last-next+1))
		entries, err := f.r.cfg.Store.Entries(ctx, key.Namespace, key.ID, next, page)
		if err != nil {
			return now, 0, fmt.Errorf("streams: read run %s from record %d: %w", key.ID, next, err)
		}
		if len(entries) == 0 {
			return now, 0, fmt.Errorf("streams: run %s: %w: %d", key.ID, machine.ErrNoRecord, next)
		}
		for i := range entries {
			for j := range entries[i].Records {
				r := &entries[i].Records[j]
				if r.Seq < next || r.Seq > last {
					continue
				}
				if now = now.After(r.Body); f.want.matches(f.kinds, r.Body, now, g) {
					passed = r.Seq
				}
				next = r.Seq + 1
			}
		}
	}
	return now, passed, nil
}

// advance applies one entry to the state of the run, if snapshots are needed.
func (f *recordFilter) advance(tr *track, entry *machine.Entry) error {
	if !f.snapshots || entry.Erased {
		return nil
	}
	result, err := history.ReplayEntry(tr.graph, tr.state, entry)
	if err != nil {
		return fmt.Errorf("streams: replay run %s: %w", entry.RunID, err)
	}
	tr.state = result.State
	return nil
}

// lookBack finds the last record with a selected kind among the records before the watch.
func (f *recordFilter) lookBack(ctx context.Context, tr *track, key runtime.RunKey) error {
	for seq := tr.seq; seq > 0; {
		entry, err := f.r.cfg.Store.Entry(ctx, key.Namespace, key.ID, seq)
		if err != nil {
			return fmt.Errorf("streams: read record %d of run %s: %w", seq, key.ID, err)
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
