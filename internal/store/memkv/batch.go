package memkv

import (
	"fmt"

	"github.com/pawl-dev/pawl/internal/store/kv"
)

// Batch begins a group.
func (d *DB) Batch() kv.Batch { return &batch{db: d, pairs: make(map[string][]byte)} }

type batch struct {
	db *DB
	// pairs maps keys to their new values. A nil value means that the key is removed.
	pairs map[string][]byte
}

func (b *batch) Set(key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	b.pairs[string(key)] = value
}

func (b *batch) Delete(key []byte) { b.pairs[string(key)] = nil }

// Commit stores the batch and calls done, both in another goroutine.
func (b *batch) Commit(group uint64, done func(kv.Result)) {
	go func() {
		if err := b.store(group); err != nil {
			done(kv.Result{Outcome: kv.NotStored, Err: err})
			return
		}
		done(kv.Result{Outcome: kv.Stored})
	}()
}

// store applies the batch as the commit group with this number, which must follow the last one.
func (b *batch) store(group uint64) error {
	if err := b.checkBounds(); err != nil {
		return err
	}
	d := b.db
	d.mu.Lock()
	defer d.mu.Unlock()
	if group != d.last+1 || d.closed {
		return fmt.Errorf("group %d after %d, closed: %v", group, d.last, d.closed)
	}
	for key, value := range b.pairs {
		if value == nil {
			d.tree.Delete(key)
			continue
		}
		d.tree.Set(key, pair{value: append([]byte{}, value...), group: group})
	}
	d.published, d.last = d.tree.Copy(), group
	return nil
}

// checkBounds returns an error if the batch exceeds the bounds.
func (b *batch) checkBounds() error {
	bytes := int64(0)
	for key, value := range b.pairs {
		if len(key) == 0 || len(key) > bounds.Key {
			return fmt.Errorf("a key of %d bytes", len(key))
		}
		size := int64(len(value))
		if size >= bounds.Apart {
			size = kv.PairBytes
		}
		bytes += int64(len(key)) + size + kv.PairBytes
	}
	if len(b.pairs) > bounds.Keys || bytes > bounds.Bytes {
		return fmt.Errorf("a group of %d keys and %d bytes; at most %d and %d", len(b.pairs), bytes, bounds.Keys, bounds.Bytes)
	}
	return nil
}
