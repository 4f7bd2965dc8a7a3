package pgengine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/diskspace"
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// Config of a store in a database; URL is required.
type Config struct {
	URL dsn.URL
	// Schema has the tables. Default "pawl".
	Schema string
	// Part is the number of the partition that is opened. Default 0, the only one of a store that was
	// never shared.
	Part int32
	// Owner is the name of the node that opens the partition. Each opening is an owner of its
	// own, with a name that begins with it. Default: no node.
	Owner string
	// Pool is what was reached before; nil: the database is reached now.
	Pool *pg.Pool
	// RenewedEpoch, if not nil, means that other code renews the lease under the epoch in it,
	// and that opening does not wait for the end of another lease.
	RenewedEpoch *atomic.Uint64
	// Raise: the store's format becomes the newest that all living nodes speak. Else it stays what
	// it is.
	Raise bool
	// Address says to others where the store is served. Default: the machine and the process.
	Address string
	// Readers bounds the connections that read. Default 16; two more commit and keep keys.
	Readers int32
	// Lease is how long the store stays this process's without a word of it. Default 3 s.
	Lease time.Duration
	// Logger gets messages about the database. Default: discarded.
	Logger *slog.Logger
	// Timeouts bound what the database is waited for; each has a default.
	Timeouts pg.Timeouts
	// RunKeys is a hook of tests: see the store's.
	RunKeys func(step string) error
}

// Away is the reason of the refusal while the database cannot be reached.
const Away = "DATABASE_AWAY"

// retryAfter is when it may be asked again.
const retryAfter = int64(time.Second)

// Database is a store's part of one. Safe for concurrent use.
type Database struct {
	*pg.DB

	cfg  Config
	keys *keyring.Ring
	// size is what the tables had at measured.
	size     atomic.Int64
	measured time.Time
}

var _ engine.Engine = (*Database)(nil)

// Open takes the store, and waits until the lease of another process that is gone has ended.
// Errors: [datadir.ErrLocked]: another one has it; *[pg.SchemaError]; *[pg.FormatError];
// *[layout.Damage]; what
// the database answers.
func Open(cfg Config) (*Database, error) {
	if cfg.Address == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		cfg.Address = fmt.Sprintf("%s, process %d", name, os.Getpid())
	}
	d := &Database{cfg: cfg}
	formats := pg.Formats{Oldest: layout.OldestFormat, Newest: layout.Format, Raise: cfg.Raise}
	var err error
	d.DB, err = pg.Open(pg.Config{
		URL: cfg.URL, Schema: cfg.Schema, Part: cfg.Part, Pool: cfg.Pool, RenewedEpoch: cfg.RenewedEpoch, Owner: cfg.owner(), Address: cfg.Address, Hot: hot, Formats: formats,
		Readers: cfg.Readers, Lease: cfg.Lease, Logger: cfg.Logger, Timeouts: cfg.Timeouts, Unread: d.unread,
	})
	if held, ok := errors.AsType[*fencing.HeldError](err); ok {
		return nil, fmt.Errorf("%w: %s: %w", datadir.ErrLocked, cfg.URL, held)
	}
	if err != nil {
		return nil, err
	}
	if d.keys, err = keyring.On(d.DB.Keys(cfg.RunKeys), nil); err != nil {
		return nil, errors.Join(err, d.DB.Close())
	}
	// A caller that only reads a store needs its size at once.
	return d, d.Sync()
}

// owner is a new name: no two openings have the same.
func (c Config) owner() string {
	if c.Owner == "" {
		return rand.Text()
	}
	return c.Owner + "." + rand.Text()
}

// hot: rows that are rewritten lie in a table of their own.
func hot(kind byte) bool { return layout.Kinds[kind].Hot }

// Keys are pages of the database.
func (d *Database) Keys() *keyring.Ring { return d.keys }

// Confirm does no work: the number of the newest group is beside the pairs, and every commit
// and every view compares it.
func (d *Database) Confirm(*layout.Txn, [16]byte, bool) error { return nil }

// Serve does no work.
func (d *Database) Serve(uint64, [16]byte) error { return nil }

// StartMaintenance fails the store when another process has taken it over. The database itself
// reclaims space.
func (d *Database) StartMaintenance(ctx context.Context, duties engine.Callbacks) {
	owner := d.Owner()
	go func() {
		select {
		case <-owner.Failed():
			duties.Fail(failure(owner.Err()))
		case <-ctx.Done():
			owner.BeginClose()
		}
	}()
}

// failure returns the error that fails a store, because it is unknown what is stored.
func failure(err error) error {
	if lost, ok := errors.AsType[*fencing.DataLossError](err); ok {
		err = layout.Damaged("", "%v", lost)
	}
	return fmt.Errorf("%w: %w", machine.ErrIndeterminate, err)
}

// CheckSpace refuses new work while the database is unavailable or its disk is full.
func (d *Database) CheckSpace(int64, bool) error {
	err := d.Owner().Away()
	switch {
	case err == nil:
		return nil
	case pg.IsFull(err):
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: diskspace.DiskLow, RetryAfter: retryAfter,
			Message: fmt.Sprintf("%s has no room on its disk; reading goes on", d.cfg.URL),
		}
	}
	return d.unread(err)
}

// unread tells callers that the database is unavailable, or that the partition has another
// owner. In the second case the store fails soon, and reads until then have an unknown result,
// too.
func (d *Database) unread(err error) error {
	if pg.IsForeign(err) {
		return failure(err)
	}
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: Away, RetryAfter: retryAfter,
		Message: fmt.Sprintf("%s: %v; nothing is lost, and it is tried on", d.cfg.URL, err),
	}
}

// Settled does no work: the commit itself stores the group's number.
func (d *Database) Settled(engine.Group) error { return nil }

// BeginLargeDelete does no work.
func (d *Database) BeginLargeDelete() (release func()) { return func() {} }

// Removed does no work.
func (d *Database) Removed(int64) {}

// Fatal never tells: what cannot be stored is tried on, and given up some time after the end
// began, see [Database.StartMaintenance].
func (d *Database) Fatal() <-chan error { return nil }

// Check fails the store that is another's.
func (d *Database) Check() error {
	if err := d.Owner().Err(); err != nil {
		return failure(err)
	}
	return nil
}

// measuring is how often the tables are measured.
const measuring = time.Minute

// Sync has no data to flush. At intervals it measures the tables; without an answer the old
// size stays.
func (d *Database) Sync() error {
	if time.Since(d.measured) < measuring || d.Owner().Away() != nil {
		return nil
	}
	d.measured = time.Now()
	if size, err := d.DB.Sizes(); err == nil {
		d.size.Store(size)
	}
	return nil
}

// Scrub does no work: the database has checksums of its own.
func (d *Database) Scrub(context.Context) error { return nil }

// Sizes returns the bytes of the tables; no values are stored separately.
func (d *Database) Sizes() (tree, log int64) { return d.size.Load(), 0 }

// Close gives the store back.
func (d *Database) Close() error { return errors.Join(d.keys.Close(), d.DB.Close()) }
