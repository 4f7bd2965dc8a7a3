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

// ContentStats counts the contents of a store by namespace: rows, runs and bytes.
type ContentStats struct {
	// Namespaces are in the order of their numbers. Shared counts the rows that do not belong to a
	// namespace.
	Namespaces []*NamespaceStats
	Shared     []*RowStats
}

// NamespaceStats counts the contents of one namespace.
type NamespaceStats struct {
	Number uint32
	// Name is the name of the namespace. It is "" for the default namespace, and for a namespace number
	// that has no name.
	Name string
	// Runs maps the name of a status to the number of runs.
	Runs                                     map[string]int64
	Entries, Records, Deleted, Blobs         int64
	Consumers, Webhooks, Pushes, DeadLetters int64
	// Oldest is the time at which the first run was started, and Newest the time at which the last run
	// was started, in Unix nanoseconds. They are 0 if the namespace has no runs.
	Oldest, Newest int64
	Rows           []*RowStats
}

// RowStats counts the rows of one kind.
type RowStats struct {
	Kind string
	// Rows is the number of rows. Keys and Values are the total sizes of their keys and values in
	// bytes.
	Rows, Keys, Values int64
}

// statsPage is the number of rows that one read of measure counts.
const statsPage = 4096

// sharedKinds are the kinds of rows that do not belong to a namespace, although the beginnings of some of their keys
// look like a namespace.
var sharedKinds = []byte{layout.KindFormat, layout.KindPack, layout.KindNamespace, layout.KindBackup}

// measure counts all rows of the store page by page, at one moment. It does not decode entries, and its
// memory does not depend on the size of the store. step is called for each row. If it returns an error,
// the measurement ends.
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

// page counts one page of rows, beginning at the key from. next is the key at which the following page
// begins, or nil if no rows follow.
func (m *meter) page(txn *layout.Txn, from []byte) (next []byte, err error) {
	kind := from[:1]
	it := txn.Scan(kv.Range{Prefix: kind})
	defer it.Close()
	rows := 0
	for it.Seek(from); layout.AtPrefix(it, kind); it.Next() {
		if rows++; rows > statsPage {
			return it.KeyCopy(), nil
		}
		if err := m.row(txn, it); err != nil {
			return nil, err
		}
	}
	return nil, m.step()
}

// row adds one row of the store to the statistics.
func (m *meter) row(txn *layout.Txn, item *kv.Iterator) error {
	if err := m.step(); err != nil {
		return err
	}
	key := item.Key()
	if slices.Contains(sharedKinds, key[0]) {
		m.shared = addRow(m.shared, item)
		if key[0] == layout.KindNamespace {
			return m.readName(item)
		}
		return nil
	}
	if len(key) < 5 {
		return layout.NewDamage("", "malformed key %x", key)
	}
	s := m.namespace(binary.BigEndian.Uint32(key[1:]))
	s.Rows = addRow(s.Rows, item)
	return s.count(txn, key)
}

// addRow adds a row to the counts of its kind.
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

func (m *meter) readName(item *kv.Iterator) error {
	return layout.ValueOf(item, func(value []byte) error {
		name, number, err := layout.ReadNamespace(item.Key(), value)
		if err == nil {
			m.namespace(number).Name = name
		}
		return err
	})
}

// count adds a row to the counts of its namespace, by the kind of its key. For example, a row may be an
// entry, a deleted run, a blob or a subscription. addRow counts the size of the row.
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

// run adds one run to the statistics. key is the key of its head (stored current state).
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

// stats returns the counts, sorted by namespace and by kind.
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

// Sizes returns the disk space in bytes: lsm for the key-value pairs, and log for large values that the
// storage engine stores separately. On PostgreSQL, all of it is lsm.
func (s *Store) Sizes() (lsm, log int64) { return s.engine.Sizes() }

// Space returns the free space of the directory's file system, and the free space below which new work
// is refused with DISK_LOW, both in bytes. The store must be in a directory.
func (s *Store) Space() (free, least int64, err error) {
	free, err = s.opts.FreeSpace(s.opts.Dir)
	return free, s.opts.MinFree, err
}
