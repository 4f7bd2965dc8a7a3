package badger

import (
	"bytes"
	"sort"
	"strings"
)

// Iterator visits keys in order, or in reverse order, as the transaction sees them. It does not see
// what is committed during the visit, because it finds the next key by the last one.
type Iterator struct {
	txn  *Txn
	opts IteratorOptions
	// pending are the transaction's own keys, sorted.
	pending []string
	item    *Item
}

// NewIterator returns an iterator that is positioned before all keys.
func (t *Txn) NewIterator(opts IteratorOptions) *Iterator {
	it := &Iterator{txn: t, opts: opts}
	for key := range t.pending {
		it.pending = append(it.pending, key)
	}
	sort.Strings(it.pending)
	return it
}

// Close ends it.
func (it *Iterator) Close() {}

// Item is where it stands.
func (it *Iterator) Item() *Item { return it.item }

// Valid reports whether the iterator is at a key with the prefix of its options.
func (it *Iterator) Valid() bool {
	return it.item != nil && bytes.HasPrefix(it.item.key, it.opts.Prefix)
}

// ValidForPrefix reports whether the iterator is at a key with the prefix of its options and the given
// prefix.
func (it *Iterator) ValidForPrefix(p []byte) bool {
	return it.Valid() && bytes.HasPrefix(it.item.key, p)
}

// Rewind goes to the beginning, or the end in reverse.
func (it *Iterator) Rewind() { it.Seek(nil) }

// Seek goes to the first key from the given one on, in the direction of the iterator.
func (it *Iterator) Seek(key []byte) {
	if len(key) == 0 {
		key = it.opts.Prefix
	}
	it.txn.db.mu.Lock()
	defer it.txn.db.mu.Unlock()
	if it.opts.Reverse && len(key) == 0 {
		it.down(len(it.txn.db.keys), len(it.pending))
		return
	}
	if it.opts.Reverse {
		it.down(after(it.txn.db.keys, string(key)), after(it.pending, string(key)))
		return
	}
	it.up(sort.SearchStrings(it.txn.db.keys, string(key)), sort.SearchStrings(it.pending, string(key)))
}

// Next goes one further.
func (it *Iterator) Next() {
	it.txn.db.mu.Lock()
	defer it.txn.db.mu.Unlock()
	if it.item == nil {
		return
	}
	key := string(it.item.key)
	if it.opts.Reverse {
		it.down(sort.SearchStrings(it.txn.db.keys, key), sort.SearchStrings(it.pending, key))
		return
	}
	it.up(after(it.txn.db.keys, key), after(it.pending, key))
}

// after returns the index of the first key after the given one.
func after(keys []string, key string) int {
	return sort.Search(len(keys), func(i int) bool { return keys[i] > key })
}

// up sets the iterator to the first existing key, of the stored keys from i on and the transaction's
// own keys from j on.
func (it *Iterator) up(i, j int) {
	keys := it.txn.db.keys
	for i < len(keys) || j < len(it.pending) {
		var key string
		switch {
		case i == len(keys) || j < len(it.pending) && it.pending[j] < keys[i]:
			key, j = it.pending[j], j+1
		case j < len(it.pending) && it.pending[j] == keys[i]:
			key, i, j = keys[i], i+1, j+1
		default:
			key, i = keys[i], i+1
		}
		if it.stand(key) {
			return
		}
		if len(it.opts.Prefix) > 0 && key > string(it.opts.Prefix) && !strings.HasPrefix(key, string(it.opts.Prefix)) {
			break
		}
	}
	it.item = nil
}

// down sets the iterator to the last existing key, of the stored keys before i and the transaction's
// own keys before j.
func (it *Iterator) down(i, j int) {
	keys := it.txn.db.keys
	for i > 0 || j > 0 {
		var key string
		switch {
		case i == 0 || j > 0 && it.pending[j-1] > keys[i-1]:
			key, j = it.pending[j-1], j-1
		case j > 0 && it.pending[j-1] == keys[i-1]:
			key, i, j = keys[i-1], i-1, j-1
		default:
			key, i = keys[i-1], i-1
		}
		if it.stand(key) {
			return
		}
	}
	it.item = nil
}

func (it *Iterator) stand(key string) bool {
	item := it.txn.at(key)
	if item == nil || it.opts.SinceTs > 0 && item.version <= it.opts.SinceTs {
		return false
	}
	it.item = item
	return true
}
