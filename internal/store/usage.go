package store

import (
	"context"
	"fmt"
	"math"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// Usage calls visit with the rollups of a namespace in the order of their days, until visit returns false. It also
// returns from when on the rollups are complete.
func (s *Store) Usage(ctx context.Context, ns uint32, q machine.UsageSearch, visit func(*machine.UsageRow) bool) (since machine.UsageSince, err error) {
	p := layout.Prefix(nil, layout.KindUsage, ns)
	err = s.view(func(txn *layout.Txn) (err error) {
		if since, err = layout.UsageSince(txn, ns); err != nil {
			return err
		}
		it := txn.Scan(kv.Range{Prefix: p})
		defer it.Close()
		for it.Seek(layout.UsageDayKey(nil, ns, q.From)); layout.AtPrefix(it, p); it.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			var row machine.UsageRow
			err := layout.ValueOf(it, func(v []byte) (err error) {
				row, err = layout.ReadUsage(it.Key(), v)
				return err
			})
			if err != nil {
				return err
			}
			if row.Day > q.To || !visit(&row) {
				return nil
			}
		}
		return ctx.Err()
	})
	if err != nil {
		return since, fmt.Errorf("usage: %w", err)
	}
	return since, nil
}

// usageAdd is what a batch adds to one rollup.
type usageAdd struct {
	row machine.UsageRow
	key []byte
}

// usageOf returns what a batch adds to rollups.
func (s *Store) usageOf(batch *machine.Batch) []usageAdd {
	rows := layout.UsageOf(batch, s.opts.UsageLabels)
	if len(rows) == 0 {
		return nil
	}
	adds := make([]usageAdd, len(rows))
	for i := range rows {
		adds[i] = usageAdd{row: rows[i], key: layout.UsageKey(&rows[i])}
	}
	return adds
}

// usageOverhead is the size in bytes of a rollup without its key: its value, and the difference between its key and the
// key of the rollup that stands for it if the day has too many. Also the row with the beginning of the rollups is in it.
const usageOverhead = 256

// usageDays are the keys of the rollups that days have, for the days of the newest batches. Only the committer uses it.
// The keys of a day are read once, at its first batch, and each new rollup is added.
//
// Problem: values of labels and names of models come from callers, so a day could get any number of rollups.
//
// Invariants: a day of a namespace has at most about Options.UsageRows rollups with all values, a tenth more without
// values of labels, and a few for everything else. Each batch adds all of its usage to some rollup, so sums stay exact.
type usageDays struct {
	// days maps the beginning of the keys of a day to these keys. size is the number of all keys.
	days map[string]map[string]struct{}
	size int
}

// maxUsageKeys limits the number of keys in the cache. Each takes about 150 bytes.
const maxUsageKeys = 100_000

// of returns the keys of a day.
func (u *usageDays) of(txn *layout.Txn, day []byte) (map[string]struct{}, error) {
	if keys, known := u.days[string(day)]; known {
		return keys, nil
	}
	if u.size > maxUsageKeys {
		u.days, u.size = nil, 0
	}
	if u.days == nil {
		u.days = map[string]map[string]struct{}{}
	}
	keys := map[string]struct{}{}
	it := txn.Scan(kv.Range{Prefix: day, KeysOnly: true})
	defer it.Close()
	for it.Rewind(); layout.AtPrefix(it, day); it.Next() {
		keys[string(it.Key())] = struct{}{}
	}
	if err := txn.Err(); err != nil {
		return nil, err
	}
	u.days[string(day)] = keys
	u.size += len(keys) + 1
	return keys, nil
}

// choose returns the key of the rollup that an amount is added to: its own one, or one that stands for it if the day has
// too many.
func (u *usageDays) choose(txn *layout.Txn, add *usageAdd, limit int) ([]byte, error) {
	keys, err := u.of(txn, layout.UsageDayKey(nil, add.row.Namespace, add.row.Day))
	if err != nil {
		return nil, err
	}
	admit := func(key []byte, most int) bool {
		_, there := keys[string(key)]
		if !there && len(keys) < most {
			keys[string(key)] = struct{}{}
			u.size++
			there = true
		}
		return there
	}
	if admit(add.key, limit) {
		return add.key, nil
	}
	folded := add.row
	layout.FoldUsage(&folded, false)
	if key := layout.UsageKey(&folded); admit(key, limit+limit/10) {
		return key, nil
	}
	layout.FoldUsage(&folded, true)
	key := layout.UsageKey(&folded)
	admit(key, math.MaxInt)
	return key, nil
}

// addUsage adds the ops that change the rollups of a batch. The first entry of a namespace, and in an older store the first
// one with usage, also stores when the rollups began.
func (c *committer) addUsage(g *group, w *Writes) error {
	for i := range w.usage {
		key, err := c.usageDays.choose(g.txn, &w.usage[i], c.store.opts.UsageRows)
		if err != nil {
			return err
		}
		w.ops = append(w.ops, layout.AddUsage(key, w.usage[i].row.UsageSum))
	}
	switch {
	case w.entry >= 0 && c.cursors[w.ns] == 0:
		w.ops = append(w.ops, layout.UsageSinceOp(w.ns, 0))
	case len(w.usage) > 0 && !c.usageBegan[w.ns]:
		since, err := c.lookup(g, layout.UsageSinceKey(w.ns))
		if err != nil {
			return err
		}
		if since == nil {
			w.ops = append(w.ops, layout.UsageSinceOp(w.ns, max(w.usageAt, 1)))
		}
		c.usageBegan[w.ns] = since != nil
	}
	return nil
}
