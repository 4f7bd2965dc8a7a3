package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// These constants limit one page of a list of runs: the default and the maximum number of returned
// runs, and the number of examined runs.
const (
	listDefault = 100
	listMost    = 1000
	listLook    = 4096
)

// ListRuns returns the states of runs that match a filter, in the order of their ids, which is the
// order of creation. The newest run comes first unless filter.Oldest is set. The page begins after the
// run id after; "" means the start. The second result is the position of the next page; it is "" if no
// more runs follow. ListRuns uses the shortest index that the filter allows and examines at most 4096
// runs. Therefore a page may be empty although more runs follow.
func (s *Store) ListRuns(ctx context.Context, ns uint32, filter machine.RunFilter, after string, limit int) ([]*machine.State, string, error) {
	if limit <= 0 {
		limit = listDefault
	}
	limit = min(limit, listMost)
	var out []*machine.State
	position := ""
	err := s.view(func(txn *layout.Txn) error {
		runs := newRunMerge(txn, shortest(txn, ns, filter), filter.IDPrefix, !filter.Oldest, after)
		defer runs.Close()
		for looked := 0; ctx.Err() == nil; looked++ {
			run, ok, err := runs.Next()
			if err != nil || !ok {
				position = ""
				return err
			}
			if len(out) == limit || looked == listLook {
				return nil
			}
			position = run
			st, err := s.matching(ctx, txn, ns, run, runs.Head, &filter)
			if err != nil {
				return fmt.Errorf("head of run %q: %w", run, err)
			}
			if st != nil {
				out = append(out, st)
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, "", fmt.Errorf("list runs: %w", err)
	}
	return out, position, nil
}

// matching returns the state of a run if the run matches the filter, otherwise nil. Most conditions are
// checked with the stored head, which is the state after an earlier record, see layout.Encode. Only the
// current workflow state is read from the records after the head. matching replays only the runs that
// it returns. value is the stored head. If it is nil, matching reads the head.
func (s *Store) matching(ctx context.Context, txn *layout.Txn, ns uint32, run string, value []byte, f *machine.RunFilter) (*machine.State, error) {
	key := layout.HeadKey(ns, run)
	if value == nil {
		var err error
		if value, err = layout.Get(txn, key); err != nil {
			return nil, err
		}
	}
	if value == nil {
		return nil, machine.ErrNoRun
	}
	if f.State != "" {
		if elsewhere, err := standsElsewhere(txn, key, value, f.State); err != nil || elsewhere {
			return nil, err
		}
	}
	head, err := txn.Head(value)
	stored := *f
	stored.State = ""
	if err != nil || !matches(head, &stored) {
		return nil, err
	}
	tail, err := layout.TailOf(txn, ns, head)
	if err != nil || f.State != "" && f.State != visited(head, tail) {
		return nil, err
	}
	return s.replayTail(ctx, txn, head, tail)
}

// standsElsewhere reports whether it is certain that a run is not in the given workflow state, without
// decoding the run. This is the case if its stored head names another state and no entries follow the
// head.
func standsElsewhere(txn *layout.Txn, key, head []byte, state string) (bool, error) {
	current, err := codec.HeadCurrent(head)
	if err != nil || string(current) == state {
		return false, err
	}
	seq, err := codec.HeadSeq(head)
	if err != nil {
		return false, err
	}
	more, err := txn.Has(layout.EntryOf(make([]byte, 0, len(key)+8), key, seq+1))
	return err == nil && !more, err
}

// visited returns the name of the run's workflow state after its last entry. head is the stored state
// of the run, and tail are the entries after it.
func visited(head *machine.State, tail []machine.Entry) string {
	for i := range slices.Backward(tail) {
		for j := range slices.Backward(tail[i].Records) {
			if t, ok := tail[i].Records[j].Body.(*machine.Transition); ok {
				return t.To
			}
		}
	}
	return head.Current
}

// matches reports whether a state matches the whole filter.
func matches(st *machine.State, f *machine.RunFilter) bool {
	if f.Pack != "" && f.Pack != st.PackID && f.Pack != st.Digest && f.Pack != st.PackID+"@"+st.PackVersion {
		return false
	}
	if len(f.Status) > 0 && !slices.Contains(f.Status, st.Status) {
		return false
	}
	if f.State != "" && f.State != st.Current {
		return false
	}
	if f.Parent != "" && (st.Parent == nil || st.Parent.RunID != f.Parent) {
		return false
	}
	if f.Reason != "" && st.Reason != f.Reason && !strings.HasPrefix(st.Reason, f.Reason+":") {
		return false
	}
	if !strings.HasPrefix(st.RunID, f.IDPrefix) {
		return false
	}
	if st.CreatedAt < f.CreatedFrom || f.CreatedBefore != 0 && st.CreatedAt >= f.CreatedBefore {
		return false
	}
	for _, l := range f.Labels {
		if !slices.Contains(st.Labels, l) {
			return false
		}
	}
	return true
}

// indexLook limits the number of rows that are counted to compare two indexes.
const indexLook = 512

// shortest returns the key prefixes of the rows that ListRuns reads for a filter. It chooses the index in which the
// fewest rows match the filter, and counts at most indexLook rows for this choice. If no index applies, it returns the
// prefix of the stored states of all runs. If an index has several prefixes, one for each status, the caller merges
// their rows.
func shortest(txn *layout.Txn, ns uint32, f machine.RunFilter) [][]byte {
	choices := indexChoices(ns, f)
	if len(choices) == 0 {
		return [][]byte{layout.Prefix(nil, layout.KindHead, ns)}
	}
	best, fewest := choices[0], indexLook+1
	for _, c := range choices {
		if len(choices) == 1 {
			break
		}
		rows := 0
		for _, p := range c {
			rows += countRows(txn, p, fewest-rows)
		}
		if rows < fewest {
			best, fewest = c, rows
		}
	}
	return best
}

// indexChoices returns, for each part of the filter that has a list index, the key prefixes of the
// index rows to merge.
func indexChoices(ns uint32, f machine.RunFilter) [][][]byte {
	var choices [][][]byte
	add := func(index string, values ...string) {
		var ps [][]byte
		for _, v := range values {
			ps = append(ps, layout.IndexPrefix(nil, ns, index, v))
		}
		choices = append(choices, ps)
	}
	if f.Parent != "" {
		add("parent", f.Parent)
	}
	for _, l := range f.Labels {
		add("label", l.Key+"="+l.Value)
	}
	if f.Pack != "" {
		add("pack", f.Pack)
	}
	if len(f.Status) > 0 {
		var names []string
		for _, st := range f.Status {
			if !slices.Contains(names, st.String()) {
				names = append(names, st.String())
			}
		}
		add("status", names...)
	}
	return choices
}

func countRows(txn *layout.Txn, p []byte, most int) int {
	it := txn.Scan(kv.Range{Prefix: p, KeysOnly: true})
	defer it.Close()
	n := 0
	for it.Rewind(); layout.AtPrefix(it, p) && n < most; it.Next() {
		n++
	}
	return n
}
