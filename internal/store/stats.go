package store

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/codec"
	"github.com/pawl-dev/pawl/internal/store/kv"
	"github.com/pawl-dev/pawl/internal/store/layout"
)

// ContentStats are the figures of what a store holds: rows, runs and bytes, by namespace.
type ContentStats struct {
	// Namespaces are by number; Shared are the rows that belong to no namespace.
	Namespaces []*NamespaceStats
	Shared     []*RowStats
}

// NamespaceStats are the figures of a namespace.
type NamespaceStats struct {
	Number uint32
	// Name is "" if only rows of its number are there, and of the default one.
	Name string
	// Runs are by the name of their status.
	Runs                                     map[string]int64
	Entries, Records, Deleted, Blobs         int64
	Consumers, Webhooks, Pushes, DeadLetters int64
	// Oldest and Newest are when runs were started, Unix nanoseconds; 0 = there are none.
	Oldest, Newest int64
	Rows           []*RowStats
}

// RowStats is what the rows of a kind take.
type RowStats struct {
	Kind string
	// Rows are counted, Keys and Values are their bytes.
	Rows, Keys, Values int64
}

// statsPage bounds one read.
const statsPage = 4096

// sharedKinds are the kinds whose rows belong to no namespace, although their keys have the form of
// one.
var sharedKinds = []byte{layout.KindFormat, layout.KindPack, layout.KindNamespace, layout.KindBackup}

// measure reads the whole store in pages of one moment, decodes no entry, and needs memory that does
// not depend on the size of the store. step is called for each row and ends it early.
func measure(view viewFunc, step func() error) (ContentStats, error) {
	m := &meter{step: step, namespaces: map[uint32]*NamespaceStats{}}
	m.namespace(0)
	for kind := range layout.Kinds {
		if layout.Kinds[kind].Row == "" && kind != layout.KindFormat {
			continue
		}
		for from := []byte{byte(kind)}; from != nil; {
			err := view(func(txn *layout.Txn) (err error) {
				from, err = m.page(txn, from)
				return err
			})
			if err != nil {
				return ContentStats{}, err
			}
		}
	}
	return m.stats(), nil
}

type meter struct {
	step       func() error
	namespaces map[uint32]*NamespaceStats
	shared     []*RowStats
}

func (m *meter) namespace(number uint32) *NamespaceStats {
	s := m.namespaces[number]
	if s == nil {
		s = &NamespaceStats{Number: number, Runs: map[string]int64{}}
		m.namespaces[number] = s
	}
	return s
}

// page counts rows from a key on; next is where the following page begins, nil = at none.
func (m *meter) page(txn *layout.Txn, from []byte) (next []byte, err error) {
	kind := from[:1]
	it := txn.Scan(kv.Range{Prefix: kind})
	defer it.Close()
	rows := 0
	for it.Seek(from); layout.Has(it, kind); it.Next() {
		if rows++; rows > statsPage {
			return it.KeyCopy(), nil
		}
		if err := m.row(txn, it); err != nil {
			return nil, err
		}
	}
	return nil, m.step()
}

func (m *meter) row(txn *layout.Txn, item *kv.Iterator) error {
	if err := m.step(); err != nil {
		return err
	}
	key := item.Key()
	if slices.Contains(sharedKinds, key[0]) {
		m.shared = addRow(m.shared, item)
		if key[0] == layout.KindNamespace {
			return m.named(item)
		}
		return nil
	}
	if len(key) < 5 {
		return layout.Damaged("", "malformed key %x", key)
	}
	s := m.namespace(binary.BigEndian.Uint32(key[1:]))
	s.Rows = addRow(s.Rows, item)
	return s.count(txn, key)
}

// addRow counts a row among those of its kind.
func addRow(all []*RowStats, item *kv.Iterator) []*RowStats {
	kind := cmp.Or(layout.Kinds[item.Key()[0]].Row, "format")
	at := slices.IndexFunc(all, func(r *RowStats) bool { return r.Kind == kind })
	if at < 0 {
		at, all = len(all), append(all, &RowStats{Kind: kind})
	}
	all[at].Rows++
	all[at].Keys += int64(len(item.Key()))
	all[at].Values += item.Size()
	return all
}

func (m *meter) named(item *kv.Iterator) error {
	return layout.ValueOf(item, func(value []byte) error {
		name, number, err := layout.ReadNamespace(item.Key(), value)
		if err == nil {
			m.namespace(number).Name = name
		}
		return err
	})
}

// count takes what a key says of the namespace besides its size.
func (s *NamespaceStats) count(txn *layout.Txn, key []byte) error {
	switch key[0] {
	case layout.KindEntry:
		s.Entries++
	case layout.KindDeleted:
		s.Deleted++
	case layout.KindBlob:
		s.Blobs++
	case layout.KindDeadLetter:
		s.DeadLetters++
	case layout.KindIndex:
		if status, ok := statusOf(key); ok {
			s.Runs[status]++
		}
	case layout.KindHead:
		return s.run(txn, key)
	case layout.KindSubscription:
		return s.subscription(key)
	}
	return nil
}

func (s *NamespaceStats) run(txn *layout.Txn, key []byte) error {
	records, err := layout.LastSeq(txn, key)
	if err != nil {
		return err
	}
	value, err := layout.Get(txn, key)
	if err != nil {
		return err
	}
	st, err := codec.LeftOfHead(value)
	if err != nil {
		return err
	}
	s.Records += int64(records)
	if s.Oldest == 0 || st.CreatedAt < s.Oldest {
		s.Oldest = st.CreatedAt
	}
	s.Newest = max(s.Newest, st.CreatedAt)
	return nil
}

func (s *NamespaceStats) subscription(key []byte) error {
	of, _, err := layout.ReadSubscriptionKey(key)
	switch of.Kind {
	case machine.SubscriptionConsumer:
		s.Consumers++
	case machine.SubscriptionWebhook:
		s.Webhooks++
	case machine.SubscriptionPush:
		s.Pushes++
	}
	return err
}

// stats are what was counted, in order.
func (m *meter) stats() ContentStats {
	out := ContentStats{Shared: m.shared}
	for _, s := range m.namespaces {
		out.Namespaces = append(out.Namespaces, s)
		slices.SortFunc(s.Rows, byRowKind)
	}
	slices.SortFunc(out.Namespaces, func(a, b *NamespaceStats) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(out.Shared, byRowKind)
	return out
}

func byRowKind(a, b *RowStats) int { return cmp.Compare(a.Kind, b.Kind) }
