package erasure

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/seal"
)

// RunKeys assigns keys to new runs. Safe for concurrent use.
type RunKeys struct {
	Ring *keyring.Ring
	// CheckSpace returns an error if the disk has too little space for the given number of bytes. Write
	// stores rows and waits until they are synced.
	CheckSpace func(bytes int64) error
	Write      func(ctx context.Context, ops []layout.Op) error

	mu sync.Mutex
	// named is the number of keys that are recorded in the database.
	named uint64
}

// Open compares the file of keys with the row that describes it. It returns an error if the file
// belongs to another store or is an older copy. After that, the keys of erased runs are unavailable for
// readers.
func (c *RunKeys) Open(txn *layout.Txn) error {
	row, err := layout.Get(txn, layout.RunKeysKey)
	if err != nil {
		return err
	}
	id, there := c.Ring.ID()
	switch {
	case row == nil:
	case len(row) != len(id)+8:
		return layout.Damaged("", "the row of the file of keys has %d bytes", len(row))
	case !there:
		return layout.Damaged(keyring.Name, "it is missing: put the newest copy of it back")
	case [16]byte(row) != id:
		return layout.Damaged(keyring.Name, "it is that of another store")
	default:
		if c.named = binary.BigEndian.Uint64(row[len(id):]); c.Ring.Slots() < c.named {
			return layout.Damaged(keyring.Name, "it has %d keys, and %d were made: it is an older copy, or cut short", c.Ring.Slots(), c.named)
		}
	}
	return Rows(txn, func(_ uint32, e *machine.Erased) error {
		if c.Ring.DestroyedAt(e.Key) == 0 {
			c.Ring.Doom(e.Key)
		}
		return nil
	})
}

// Name stores the id of the file of keys and the number of its keys in the database.
func (c *RunKeys) Name(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.name(ctx)
}

func (c *RunKeys) name(ctx context.Context) error {
	id, there := c.Ring.ID()
	slots := c.Ring.Slots()
	if !there || slots == c.named {
		return nil
	}
	value := binary.BigEndian.AppendUint64(append([]byte(nil), id[:]...), slots)
	err := c.Write(ctx, []layout.Op{{Key: layout.RunKeysKey, Value: value}})
	if err == nil {
		c.named = slots
	}
	return err
}

// Of returns the key with which the rows of a batch are sealed. It returns nil if they are not sealed.
// A run that begins gets a new key. The key is synced and recorded in the database before any row is
// sealed with it.
func (c *RunKeys) Of(ctx context.Context, batch *machine.Batch) (*seal.Key, error) {
	st := batch.State
	if st == nil || !st.Erasable {
		return nil, nil
	}
	if batch.Prev > 0 || st.Key != 0 {
		return c.Ring.Key(st.Key)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.CheckSpace(keyring.GrowBytes)
	if err == nil {
		err = c.Ring.Begin()
	}
	if err != nil {
		return nil, err
	}
	key, err := c.Ring.Take()
	if err != nil {
		return nil, err
	}
	if err := c.name(ctx); err != nil {
		c.Ring.Return(key.Slot)
		return nil, err
	}
	st.Key = key.Slot
	return key, nil
}

// Unused returns a key to the ring if its run did not begin, because the id of the run was used before.
// No value was stored with this key.
func (c *RunKeys) Unused(batch *machine.Batch, err error) {
	if batch.Prev == 0 && batch.State.Key != 0 && errors.Is(err, machine.ErrConsumed) {
		c.Ring.Return(batch.State.Key)
		batch.State.Key = 0
	}
}

// ErrNoRunKeys means that there are sealed rows but the file of keys is missing.
var ErrNoRunKeys = errors.New("RUN_KEYS_MISSING: runs can be erased here, and the file of their keys is not there: copy the newest RUNKEYS to the backups")

// Guarded wraps put. It is used when rows of another store are restored, because the keys of that store
// are in a separate file. If this file is missing, the returned function refuses sealed rows with
// [ErrNoRunKeys].
func (c *RunKeys) Guarded(put func(ctx context.Context, ops []layout.Op) error) func(ctx context.Context, ops []layout.Op) error {
	return func(ctx context.Context, ops []layout.Op) error {
		if _, there := c.Ring.ID(); !there && slices.ContainsFunc(ops, layout.SealedRow) {
			return ErrNoRunKeys
		}
		return put(ctx, ops)
	}
}
