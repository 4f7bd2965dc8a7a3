package store

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/erasure"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// runKeys assigns encryption keys to new erasable runs. It is safe for concurrent use.
type runKeys struct {
	ring *keyring.Ring
	// checkSpace returns an error if the disk has too little space for the given number of bytes. write
	// stores rows and waits until they are synced.
	checkSpace func(bytes int64) error
	write      func(ctx context.Context, ops []layout.Op) error

	mu sync.Mutex
	// named is the number of run keys that the row in the database records.
	named uint64
}

// open compares the file of run keys with the row in the database that describes it. It returns an error if the
// file is missing, belongs to another store or is an older copy. It also makes the keys of erased runs
// unavailable for readers.
func (c *runKeys) open(txn *layout.Txn) error {
	row, err := layout.Get(txn, layout.RunKeysKey)
	if err != nil {
		return err
	}
	id, there := c.ring.ID()
	switch {
	case row == nil:
		// The database has not recorded the file yet.
	case len(row) != len(id)+8:
		return layout.NewDamage("", "the row of the file of keys has %d bytes", len(row))
	case !there:
		return layout.NewDamage(keyring.Name, "it is missing: put the newest copy of it back")
	case [16]byte(row) != id:
		return layout.NewDamage(keyring.Name, "it is that of another store")
	default:
		if c.named = binary.BigEndian.Uint64(row[len(id):]); c.ring.Slots() < c.named {
			return layout.NewDamage(keyring.Name, "it has %d keys, and %d were made: it is an older copy, or cut short", c.ring.Slots(), c.named)
		}
	}
	return erasure.Rows(txn, func(_ uint32, e *machine.Erased) error {
		if c.ring.DestroyedAt(e.Key) == 0 {
			c.ring.Doom(e.Key)
		}
		return nil
	})
}

// record stores the id of the file of run keys and the number of its keys in the database.
func (c *runKeys) record(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recordLocked(ctx)
}

// recordLocked stores the id of the file of run keys and the number of its keys in the database. The
// caller holds the mutex c.mu.
func (c *runKeys) recordLocked(ctx context.Context) error {
	id, there := c.ring.ID()
	slots := c.ring.Slots()
	if !there || slots == c.named {
		return nil
	}
	value := binary.BigEndian.AppendUint64(append([]byte(nil), id[:]...), slots)
	err := c.write(ctx, []layout.Op{{Key: layout.RunKeysKey, Value: value}})
	if err == nil {
		c.named = slots
	}
	return err
}

// keyOf returns the key with which the rows of a batch are encrypted, or nil if the batch's run is not
// erasable. If the batch begins a run, the run gets a new key. The key is synced and recorded in the
// database before any row is encrypted with it.
func (c *runKeys) keyOf(ctx context.Context, batch *machine.Batch) (*seal.Key, error) {
	st := batch.State
	if st == nil || !st.Erasable {
		return nil, nil
	}
	if batch.Prev > 0 || st.Key != 0 {
		return c.ring.Key(st.Key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.checkSpace(keyring.GrowBytes)
	if err == nil {
		err = c.ring.Begin()
	}
	if err != nil {
		return nil, err
	}
	key, err := c.ring.Take()
	if err != nil {
		return nil, err
	}
	if err := c.recordLocked(ctx); err != nil {
		c.ring.Return(key.Slot)
		return nil, err
	}
	st.Key = key.Slot
	return key, nil
}

// unused gives the encryption key of a new run back to the key ring. It does so if the run did not
// begin because the request id was used before (err). No value was stored with this key.
func (c *runKeys) unused(batch *machine.Batch, err error) {
	if batch.Prev == 0 && batch.State.Key != 0 && errors.Is(err, machine.ErrConsumed) {
		c.ring.Return(batch.State.Key)
		batch.State.Key = 0
	}
}

// ErrNoRunKeys means that a restore has encrypted rows of erasable runs but no file with their keys.
var ErrNoRunKeys = errors.New("RUN_KEYS_MISSING: runs can be erased here, and the file of their keys is not there: copy the newest RUNKEYS to the backups")

// guardPut returns a function that stores rows with put. While the file of run keys is missing, it
// refuses encrypted rows with [ErrNoRunKeys]. A restore uses it, because the keys of the backed-up
// store are in a separate file.
func (c *runKeys) guardPut(put func(ctx context.Context, ops []layout.Op) error) func(ctx context.Context, ops []layout.Op) error {
	return func(ctx context.Context, ops []layout.Op) error {
		if _, there := c.ring.ID(); !there && slices.ContainsFunc(ops, layout.SealedRow) {
			return ErrNoRunKeys
		}
		return put(ctx, ops)
	}
}
