package pg

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// Batch begins a group.
func (d *DB) Batch() kv.Batch { return &batch{db: d, at: make(map[string]int)} }

// batch collects the pairs of a commit group. at maps each key to its index in pairs, so that a later
// Set or Delete of a key replaces an earlier one.
type batch struct {
	db    *DB
	pairs []pair
	at    map[string]int
}

// pair is a key with its new value. If removed is true, the key is removed.
type pair struct {
	key, value []byte
	removed    bool
}

func (b *batch) Set(key, value []byte) { b.put(pair{key: key, value: value}) }

func (b *batch) Delete(key []byte) { b.put(pair{key: key, removed: true}) }

func (b *batch) put(p pair) {
	if i, there := b.at[string(p.key)]; there {
		b.pairs[i] = p
		return
	}
	b.at[string(p.key)] = len(b.pairs)
	b.pairs = append(b.pairs, p)
}

// Commit passes the commit group to the owner of the partition, which retries while the database is
// unavailable.
func (b *batch) Commit(number uint64, done func(kv.Result)) {
	g := &group{}
	for _, p := range b.pairs {
		g.add(b.db.cfg.Hot(p.key[0]), p)
	}
	b.db.owner.Commit(number, g, done)
}

// group contains everything that one commit statement stores: for each of the two tables (hot and
// cold), the keys and values that are set, and the keys that are removed.
type group struct{ hot, cold side }

type side struct{ keys, values, removedKeys array }

func (g *group) add(hot bool, p pair) {
	s := &g.cold
	if hot {
		s = &g.hot
	}
	if p.removed {
		s.removedKeys.add(p.key)
		return
	}
	s.keys.add(p.key)
	s.values.add(p.value)
}

// changeKinds returns a bit mask of the kinds of changes in the commit group: set or removed rows, in the hot or the
// cold table. The bits select the parts of the commit statement.
func (g *group) changeKinds() (sorted int) {
	for sort, a := range [sorts]*array{hotSet: &g.hot.keys, coldSet: &g.cold.keys, hotGone: &g.hot.removedKeys, coldGone: &g.cold.removedKeys} {
		if a.n > 0 {
			sorted |= 1 << sort
		}
	}
	return sorted
}

// arrays returns the keys and values of the commit group, in the order of the parameters of the commit
// statement.
func (g *group) arrays() [][]byte {
	return [][]byte{
		g.hot.keys.encode(), g.hot.values.encode(), g.cold.keys.encode(), g.cold.values.encode(),
		g.hot.removedKeys.encode(), g.cold.removedKeys.encode(),
	}
}

// array is a bytea[] in PostgreSQL's binary format: a header, and then each element after its length.
type array struct {
	bytes []byte
	n     int
}

const arrayHead = 20

func (a *array) add(b []byte) {
	if a.n == 0 {
		a.bytes = make([]byte, arrayHead, arrayHead+16*(len(b)+4))
	}
	a.n++
	a.bytes = append(binary.BigEndian.AppendUint32(a.bytes, uint32(len(b))), b...)
}

func (a *array) encode() []byte {
	if a.n == 0 {
		return noArray
	}
	copy(a.bytes, arrayHeader(1))
	binary.BigEndian.PutUint32(a.bytes[12:], uint32(a.n))
	binary.BigEndian.PutUint32(a.bytes[16:], 1)
	return a.bytes
}

var noArray = arrayHeader(0)

// arrayHeader returns the header of an array: the number of dimensions, a flag which means that no
// element is null, and the type of the elements.
func arrayHeader(dimensions uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, dimensions)
	b = binary.BigEndian.AppendUint32(b, 0)
	return binary.BigEndian.AppendUint32(b, pgtype.ByteaOID)
}

func int4(n int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func int8of(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
