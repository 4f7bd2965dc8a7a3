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
	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/fencing"
	"github.com/pawl-dev/pawl/internal/store/keyring"
	"github.com/pawl-dev/pawl/internal/store/layout"
	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// Config configures a store in a database. URL is required.
type Config struct {
	URL dsn.URL
	// Schema is the name of the schema that contains the tables. Default "pawl".
	Schema string
	// Part is the number of the partition to open. Default 0, which is the only partition of a store
	// that no cluster has used.
	Part int32
	// Owner is the id of the node that opens the partition. The partition gets an owner name that
	// begins with this id and is unique to this call of Open. Default: no node.
	Owner string
	// Pool is an existing connection pool. If it is nil, Open connects to the database itself.
	Pool *pg.Pool
	// RenewedEpoch is set if other code renews the lease, under the epoch that is stored in it. Open
	// then returns an error, and does not wait, while another owner has a valid lease.
	RenewedEpoch *atomic.Uint64
	// Raise means that Open changes the store's format to the newest one that all running nodes
	// support. Otherwise the format does not change.
	Raise bool
	// Address is shown to other processes as the place where the store is served. Default: host name
	// and process number.
	Address string
	// Readers is the maximum number of connections for reads. Default 16. Two more connections
	// serve commits and run keys.
	Readers int32
	// Lease is how long this process keeps the store after its last commit or renewal. Default 3 s.
	Lease time.Duration
	// Logger receives messages about the database. Default: discarded.
	Logger *slog.Logger
	// Timeouts limit the waits for the database. Each has a default.
	Timeouts pg.Timeouts
	// RunKeys is a hook for tests, see Hooks in package store.
	RunKeys func(step string) error
}

// ReasonDatabaseAway is the reason of the error for a request that is refused while the database is unavailable.
const ReasonDatabaseAway = "DATABASE_AWAY"

// retryAfter is how long a client should wait before it repeats a refused request.
const retryAfter = int64(time.Second)

// Database is one partition of a store in a database. Safe for concurrent use.
type Database struct {
	*pg.DB

	cfg  Config
	keys *keyring.Ring
	// size is the size of the tables in bytes, as of the time measured.
	size     atomic.Int64
	measured time.Time
}

var _ engine.Engine = (*Database)(nil)

// Open acquires the partition of the store. If the lease of a process that no longer exists is still
// valid, Open waits for its end. Errors: [datadir.ErrLocked] if another process has the store,
// *[pg.SchemaError], *[pg.FormatError], *[layout.Damage], and the errors of the database.
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
		Readers: cfg.Readers, Lease: cfg.Lease, Logger: cfg.Logger, Timeouts: cfg.Timeouts, Unread: d.readError,
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
	// The size is measured now, because a caller that only reads the statistics of a store needs it
	// immediately.
	return d, d.Sync()
}

// owner returns a new owner name. No two openings of a partition have the same name.
func (c Config) owner() string {
	if c.Owner == "" {
		return rand.Text()
	}
	return c.Owner + "." + rand.Text()
}

// hot reports whether the rows of a kind are often rewritten and therefore go to a table of their own.
func hot(kind byte) bool { return layout.Kinds[kind].Hot }

// Keys returns the keys of erasable runs, which are stored in the database.
func (d *Database) Keys() *keyring.Ring { return d.keys }

// Confirm does nothing, because acknowledged commits are not recorded separately. The number of the
// newest group is stored together with the pairs, and every commit and every view compares it.
func (d *Database) Confirm(*layout.Txn, [16]byte, bool) error { return nil }

// Serve does no work.
func (d *Database) Serve(uint64, [16]byte) error { return nil }

// StartMaintenance starts a goroutine that makes the store fail when its owner has failed, for example because
// another process has taken over the store. When ctx ends, the goroutine begins the close of the owner. The
// database itself reclaims disk space.
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

// failure returns the error with which the store fails. The error says that it is unknown what is
// stored.
func failure(err error) error {
	if lost, ok := errors.AsType[*fencing.DataLossError](err); ok {
		err = layout.NewDamage("", "%v", lost)
	}
	return fmt.Errorf("%w: %w", machine.ErrIndeterminate, err)
}

// CheckSpace returns an error while the database is unavailable or its disk is full.
func (d *Database) CheckSpace(int64, bool) error {
	err := d.Owner().Unavailable()
	switch {
	case err == nil:
		return nil
	case pg.IsFull(err):
		return &machine.Error{
			Code: machine.CodeResourceExhausted, Reason: datadir.DiskLow, RetryAfter: retryAfter,
			Message: fmt.Sprintf("%s has no room on its disk; reading goes on", d.cfg.URL),
		}
	}
	return d.readError(err)
}

// readError returns the error for clients after a read got no answer from the database. If the partition
// has another owner, it is an error that makes the outcome of all later calls unknown. Otherwise it is
// the reason [ReasonDatabaseAway], and the client should retry.
func (d *Database) readError(err error) error {
	if pg.IsForeign(err) {
		return failure(err)
	}
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: ReasonDatabaseAway, RetryAfter: retryAfter,
		Message: fmt.Sprintf("%s: %v; nothing is lost, and it is tried on", d.cfg.URL, err),
	}
}

// Settled does nothing, because the commit itself stores the number of the commit group.
func (d *Database) Settled(engine.Group) error { return nil }

// BeginLargeDelete does no work.
func (d *Database) BeginLargeDelete() (release func()) { return func() {} }

// Removed does no work.
func (d *Database) Removed(int64) {}

// Fatal returns a nil channel, because a failed commit is retried while the store is open. After a
// close has begun, retries end after some time, see [Database.StartMaintenance].
func (d *Database) Fatal() <-chan error { return nil }

// Check returns an error if the owner has failed, for example because the store belongs to another process.
func (d *Database) Check() error {
	if err := d.Owner().Err(); err != nil {
		return failure(err)
	}
	return nil
}

// measuring is the interval at which the size of the tables is measured.
const measuring = time.Minute

// Sync syncs nothing, because every commit is durable. At intervals it measures the size of the tables.
// If the database does not answer, the last measured size stays.
func (d *Database) Sync() error {
	if time.Since(d.measured) < measuring || d.Owner().Unavailable() != nil {
		return nil
	}
	d.measured = time.Now()
	if size, err := d.DB.Sizes(); err == nil {
		d.size.Store(size)
	}
	return nil
}

// Scrub does nothing, because the database has its own checksums.
func (d *Database) Scrub(context.Context) error { return nil }

// Sizes returns the size of the tables in bytes. log is 0, because no values are stored separately.
func (d *Database) Sizes() (tree, log int64) { return d.size.Load(), 0 }

// Close gives the store back.
func (d *Database) Close() error { return errors.Join(d.keys.Close(), d.DB.Close()) }
