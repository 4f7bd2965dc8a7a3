package testkit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Head returns a run's state.
func (d *disk) Head(_ context.Context, ns uint32, run string) (*machine.State, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	rows := d.runs[runKey{ns, run}]
	if rows == nil {
		return nil, machine.ErrNoRun
	}
	return rows.head, nil
}

// Entries returns a run's entries that hold records >= from.
func (d *disk) Entries(_ context.Context, ns uint32, run string, from uint64, page machine.Page) ([]machine.Entry, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	rows := d.runs[runKey{ns, run}]
	if rows == nil {
		return nil, nil
	}
	i := rows.find(from)
	return slices.Clone(rows.entries[i:min(i+records(page), len(rows.entries))]), nil
}

// find is the index of the first entry that holds a record >= seq.
func (r *runRows) find(seq uint64) int {
	return sort.Search(len(r.entries), func(i int) bool {
		e := &r.entries[i]
		return e.First+uint64(len(e.Records)) > seq
	})
}

func records(page machine.Page) int {
	if page.Records == 0 {
		return 256
	}
	return page.Records
}

// Entry returns the one entry that holds the record seq.
func (d *disk) Entry(_ context.Context, ns uint32, run string, seq uint64) (machine.Entry, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	rows := d.runs[runKey{ns, run}]
	if rows == nil || seq == 0 {
		return machine.Entry{}, machine.ErrNoRecord
	}
	i := rows.find(seq)
	if i == len(rows.entries) {
		return machine.Entry{}, machine.ErrNoRecord
	}
	return rows.entries[i], nil
}

// Checkpoint returns the newest copy of a run's state whose seq is at most seq.
func (d *disk) Checkpoint(_ context.Context, ns uint32, run string, seq uint64) (*machine.State, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	rows := d.runs[runKey{ns, run}]
	if rows == nil {
		return nil, nil
	}
	kept := rows.checkpoints
	n := sort.Search(len(kept), func(i int) bool { return kept[i].Seq > seq })
	if n == 0 {
		return nil, nil
	}
	return kept[n-1], nil
}

// Journal returns entries of all runs behind a cursor.
func (d *disk) Journal(_ context.Context, ns uint32, after uint64, page machine.Page) ([]machine.Entry, uint64, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	journal := d.journal[ns]
	from := min(after, uint64(len(journal)))
	to := min(from+uint64(records(page)), uint64(len(journal)))
	return slices.Clone(journal[from:to]), max(to, after), nil
}

// Usage visits one rollup for each settled usage, in the order of the days.
func (d *disk) Usage(_ context.Context, ns uint32, q machine.UsageSearch, visit func(*machine.UsageRow) bool) (machine.UsageSince, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	rows := slices.Clone(d.usage)
	slices.SortStableFunc(rows, func(a, b machine.UsageRow) int { return cmp.Compare(a.Day, b.Day) })
	for i := range rows {
		if r := &rows[i]; r.Namespace == ns && r.Day >= q.From && r.Day <= q.To && !visit(r) {
			break
		}
	}
	return machine.UsageSince{Complete: true}, nil
}

// Decisions returns the entries with decisions, the newest first.
func (d *disk) Decisions(_ context.Context, ns uint32, q machine.DecisionSearch) (page machine.DecisionPage, err error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	all, place := d.journal[ns], func(e *machine.Entry) uint64 { return e.Cursor }
	if q.Run != "" {
		if all = nil; d.runs[runKey{ns, q.Run}] != nil {
			all, place = d.runs[runKey{ns, q.Run}].entries, func(e *machine.Entry) uint64 { return e.First }
		}
	}
	for i := range slices.Backward(all) {
		e := &all[i]
		if q.Before != 0 && place(e) >= q.Before || e.Input.At < q.From {
			continue
		}
		if len(page.Entries) == q.Limit {
			page.Next = place(&page.Entries[q.Limit-1])
			break
		}
		if slices.ContainsFunc(e.Records, func(r machine.Record) bool { _, ok := r.Body.(*machine.StepDecided); return ok }) {
			page.Entries = append(page.Entries, *e)
		}
	}
	return page, nil
}

// ReplayWith implements runtime.Store: this one keeps every state.
func (d *disk) ReplayWith(func(context.Context, *machine.State, []machine.Entry) (*machine.State, error)) {
}

// Tail is the newest cursor of a namespace.
func (d *disk) Tail(_ context.Context, ns uint32) (uint64, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return uint64(len(d.journal[ns])), nil
}

// Epoch names this store.
func (d *disk) Epoch() [16]byte { return d.epoch }

// FindRequestID returns the row of a used-up id.
func (d *disk) FindRequestID(_ context.Context, ns uint32, key machine.Dedupe) (machine.Dedupe, bool, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	row, ok := d.consumed[consumedKey(ns, key)]
	return row, ok, nil
}

// Effect returns the row of a business key.
func (d *disk) Effect(_ context.Context, ns uint32, key [32]byte) (machine.Effect, bool, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	row, ok := d.effects[effectKey{ns, key}]
	return row, ok, nil
}

// ArtifactVersions lists the writes of one artifact.
func (d *disk) ArtifactVersions(_ context.Context, ns uint32, run, name string, atSeq uint64, newestOnly bool) ([]machine.ArtifactVersion, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	rows := d.runs[runKey{ns, run}]
	if rows == nil {
		return nil, nil
	}
	var versions []machine.ArtifactVersion
	for _, v := range rows.writes[name] {
		if v.Seq <= atSeq {
			versions = append(versions, v)
		}
	}
	if newestOnly && len(versions) > 1 {
		versions = versions[len(versions)-1:]
	}
	return versions, nil
}

// ArtifactVersionsAfter implements runtime.Store.
func (d *disk) ArtifactVersionsAfter(ctx context.Context, ns uint32, run, name string, after, atSeq uint64) ([]machine.ArtifactVersion, error) {
	versions, err := d.ArtifactVersions(ctx, ns, run, name, atSeq, false)
	for len(versions) > 0 && versions[0].Seq <= after {
		versions = versions[1:]
	}
	return versions, err
}

// MessageRows lists rows [from, next) of a state's conversation.
func (d *disk) MessageRows(_ context.Context, ns uint32, run, state string, from, next uint64) ([]machine.MessageRow, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	rows := d.runs[runKey{ns, run}]
	if rows == nil {
		return nil, nil
	}
	var found []machine.MessageRow
	for _, m := range rows.messages[state] {
		if m.N >= from && m.N < next {
			found = append(found, m)
		}
	}
	return found, nil
}

// DueTimers returns timers with Due <= now and the due time of the next.
func (d *disk) DueTimers(_ context.Context, now int64, limit int) ([]machine.Timer, int64, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := sort.Search(len(d.timers), func(i int) bool { return d.timers[i].Due > now })
	var next int64
	if n < len(d.timers) {
		next = d.timers[n].Due
	}
	return slices.Clone(d.timers[:min(n, limit)]), next, nil
}

// ReadyRuns lists runs in the ready index.
func (d *disk) ReadyRuns(_ context.Context, ns uint32, after string, limit int) ([]string, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var runs []string
	for key := range d.ready {
		if key.ns == ns && key.id > after {
			runs = append(runs, key.id)
		}
	}
	slices.Sort(runs)
	return runs[:min(limit, len(runs))], nil
}

// Outbox lists rows of a kind with Due <= now.
func (d *disk) Outbox(_ context.Context, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error) {
	return d.rows(limit, func(row machine.OutboxRow) bool { return row.Kind == kind && row.Due <= now })
}

// OutboxOf lists the same rows, but only those of a namespace.
func (d *disk) OutboxOf(_ context.Context, ns uint32, kind machine.OutboxKind, now int64, limit int) ([]machine.OutboxRow, error) {
	return d.rows(limit, func(row machine.OutboxRow) bool { return row.Namespace == ns && row.Kind == kind && row.Due <= now })
}

func (d *disk) rows(limit int, has func(machine.OutboxRow) bool) ([]machine.OutboxRow, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var rows []machine.OutboxRow
	for row := range d.outbox {
		if has(row) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b machine.OutboxRow) int {
		if a.Due != b.Due {
			return int(a.Due - b.Due)
		}
		return strings.Compare(fmt.Sprint(a.RunID, a.Step), fmt.Sprint(b.RunID, b.Step))
	})
	return rows[:min(limit, len(rows))], nil
}

// ListRuns returns heads in order of creation.
func (d *disk) ListRuns(_ context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	ids := slices.Clone(d.order[ns])
	if !filter.Oldest {
		slices.Reverse(ids)
	}
	if after != "" {
		ids = ids[slices.Index(ids, after)+1:]
	}
	var runs []*machine.State
	for _, id := range ids {
		head := d.runs[runKey{ns, id}].head
		if !matchesFilter(&filter, head) {
			continue
		}
		if len(runs) == limit {
			return runs, runs[limit-1].RunID, nil
		}
		runs = append(runs, head)
	}
	return runs, "", nil
}

// CountRuns counts the runs in any of the statuses.
func (d *disk) CountRuns(_ context.Context, ns uint32, statuses []machine.Status) (int, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := 0
	for key, run := range d.runs {
		if key.ns == ns && slices.Contains(statuses, run.head.Status) {
			n++
		}
	}
	return n, nil
}

func matchesFilter(f *machine.RunFilter, s *machine.State) bool {
	names := []string{s.PackID, s.PackID + "@" + s.PackVersion, s.Digest}
	switch {
	case f.Pack != "" && !slices.Contains(names, f.Pack):
		return false
	case len(f.Status) > 0 && !slices.Contains(f.Status, s.Status):
		return false
	case f.State != "" && f.State != s.Current:
		return false
	case !strings.HasPrefix(s.RunID, f.IDPrefix):
		return false
	case f.Parent != "" && (s.Parent == nil || s.Parent.RunID != f.Parent):
		return false
	case f.Reason != "" && !strings.HasPrefix(s.Reason+":", f.Reason+":"):
		return false
	case s.CreatedAt < f.CreatedFrom, f.CreatedBefore != 0 && f.CreatedBefore <= s.CreatedAt:
		return false
	}
	for _, l := range f.Labels {
		if !slices.Contains(s.Labels, l) {
			return false
		}
	}
	return true
}
