package layout

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
)

// UsageDayKey appends the beginning of the keys of a day's rollups.
func UsageDayKey(b []byte, ns uint32, day int64) []byte {
	return Instant(Prefix(b, KindUsage, ns), day)
}

// UsageKey returns the key of a rollup.
func UsageKey(r *machine.UsageRow) []byte {
	b := UsageDayKey(make([]byte, 0, 128), r.Namespace, r.Day)
	for _, name := range []string{r.Pack, r.State, r.Model, r.Tool} {
		b = AppendName(b, machine.UsageName(name))
	}
	for _, l := range r.Labels {
		b = AppendName(AppendName(b, machine.UsageName(l.Key)), machine.UsageName(l.Value))
	}
	return b
}

// ReadUsage decodes a rollup.
func ReadUsage(key, value []byte) (r machine.UsageRow, err error) {
	bad := fmt.Errorf("malformed usage key %x", key)
	if len(key) < 13 {
		return r, bad
	}
	r.Namespace, r.Day = binary.BigEndian.Uint32(key[1:]), DueAt(key[5:])
	rest := key[13:]
	for _, name := range []*string{&r.Pack, &r.State, &r.Model, &r.Tool} {
		var ok bool
		if *name, rest, ok = CutName(rest); !ok {
			return r, bad
		}
	}
	for len(rest) > 0 {
		var l machine.Label
		var ok bool
		if l.Key, rest, ok = CutName(rest); !ok {
			return r, bad
		}
		if l.Value, rest, ok = CutName(rest); !ok {
			return r, bad
		}
		r.Labels = append(r.Labels, l)
	}
	r.UsageSum, err = codec.DecodeUsage(value)
	return r, err
}

// UsageOf returns the rollups that a batch adds to, with what it adds. keys are the labels that the operator has named.
// A run whose consumption another run settles (see [machine.State.AccountLabels]) adds nothing.
func UsageOf(b *machine.Batch, keys []string) []machine.UsageRow {
	if len(b.Settled) == 0 {
		return nil
	}
	labels, counted := b.State.AccountLabels()
	if !counted {
		return nil
	}
	labels = slices.DeleteFunc(slices.Clone(labels), func(l machine.Label) bool { return !slices.Contains(keys, l.Key) })
	rows := make([]machine.UsageRow, 0, len(b.Settled))
	for i := range b.Settled {
		u := &b.Settled[i]
		rows = append(rows, machine.UsageRow{
			Namespace: b.State.Namespace, Day: machine.UsageDay(b.State.At), Pack: b.State.PackID,
			State: u.State, Model: u.Model, Tool: u.Tool, Labels: labels, UsageSum: u.UsageSum,
		})
	}
	return rows
}

// AddUsage returns the op that adds a sum to the rollup with the given key.
func AddUsage(key []byte, by machine.UsageSum) Op {
	return Op{Key: key, merge: func(stored []byte) ([]byte, error) {
		var sum machine.UsageSum
		if stored != nil {
			var err error
			if sum, err = codec.DecodeUsage(stored); err != nil {
				return nil, err
			}
		}
		sum.Add(by)
		return codec.EncodeUsage(&sum), nil
	}}
}

// FoldUsage sets the labels of a rollup to [machine.UsageOther]. If whole is set, it also sets everything else that
// distinguishes the rollups of a day.
func FoldUsage(r *machine.UsageRow, whole bool) {
	if whole {
		r.Pack, r.State, r.Model, r.Tool = machine.UsageOther, machine.UsageOther, machine.UsageOther, machine.UsageOther
	}
	r.Labels = slices.Clone(r.Labels)
	for i := range r.Labels {
		r.Labels[i].Value = machine.UsageOther
	}
}

// UsageSinceKey returns the key of the row that says from when on the rollups of a namespace are complete. Its value is the
// time of the first one in Unix nanoseconds, or 0 if the namespace began with rollups. Without the row, none was written.
func UsageSinceKey(ns uint32) []byte { return Prefix(nil, KindUsage, ns) }

// IsUsageSince reports whether a key is one of [UsageSinceKey].
func IsUsageSince(key []byte) bool { return len(key) == 5 }

// UsageSince decodes the row with [UsageSinceKey]. Without the row, the rollups of a namespace without entries are complete.
func UsageSince(txn *Txn, ns uint32) (since machine.UsageSince, err error) {
	value, err := Get(txn, UsageSinceKey(ns))
	if err == nil && value == nil {
		since.Complete = !AnyWith(txn, Prefix(nil, KindCursor, ns))
		err = txn.Err()
	}
	if err != nil || value == nil {
		return since, err
	}
	at, err := codec.DecodeNumber(value)
	return machine.UsageSince{Complete: at == 0, At: int64(at)}, err
}

// UsageSinceOp returns the op that sets the row with [UsageSinceKey].
func UsageSinceOp(ns uint32, at int64) Op {
	return Op{Key: UsageSinceKey(ns), Value: codec.EncodeNumber(uint64(at))}
}
