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

// Config configures a store in a database. URL is required.
type Config struct {
	URL dsn.URL
	// Schema is the name of the schema that contains the tables. Default "pawl".
	Schema string
	// Part is the number of the partition to open. Default 0, which is the only partition of a
	// store that was never shared.
	Part int32
	// Owner is the name of the node that opens the partition. Each opening has an owner name of its own
	// that begins with this name. Default: no node.
	Owner string
	// Pool is an existing connection pool. If it is nil, Open connects to the database.
	Pool *pg.Pool
	// RenewedEpoch means that other code renews the lease, if it is not nil. The lease is renewed under
	// the epoch that is stored in it. Open then does not wait for the end of another owner's lease.
	RenewedEpoch *atomic.Uint64
	// Raise means that Open changes the store's format to the newest one that all running nodes
	// support. Otherwise the format does not change.
	Raise bool
	// Address is reported to other processes as the place where the store is served. Default: host name
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
	// RunKeys is a hook for tests, see the Hooks of the store.
	RunKeys func(step string) error
}

// Away is the reason of the error for a request that is refused while the database is unavailable.
const Away = "DATABASE_AWAY"

// retryAfter is how long a client should wait before it repeats a refused request.
const retryAfter = int64(time.Second)

// Database is one partition of a store in a database. Safe for concurrent use.
type Database struct {
	*pg.DB

	cfg  Config
	keys *keyring.Ring
	// size is the size of the tables in bytes. It was measured at the time measured.
	size     atomic.Int64
	measured time.Time
}

var _ engine.Engine = (*Database)(nil)

// Open acquires the store. If the lease of a process that no longer exists is still valid, Open waits
// for its end. Errors: [datadir.ErrLocked] if another process has the store, *[pg.SchemaError],
// *[pg.FormatError], *[layout.Damage], and the errors of the database.
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
	// The size is measured now, because a caller that only reads a store needs it immediately.
	return d, d.Sync()
}

// owner returns a new owner name. No two openings have the same name.
func (c Config) owner() string {
	if c.Owner == "" {
		return rand.Text()
	}
	return c.Owner + "." + rand.Text()
}

// hot reports whether the rows of a kind are often rewritten. Such rows are stored in a separate table.
func hot(kind byte) bool { return layout.Kinds[kind].Hot }

// Keys returns the keys of runs, which are stored in the database.
func (d *Database) Keys() *keyring.Ring { return d.keys }

// Confirm does nothing, because the number of the newest group is stored together with the pairs, and
// every commit and every view compares it.
func (d *Database) Confirm(*layout.Txn, [16]byte, bool) error { return nil }

// Serve does no work.
func (d *Database) Serve(uint64, [16]byte) error { return nil }

// StartMaintenance starts a goroutine that waits until another process has taken the store over. Then
// it makes the store fail. It does not reclaim space, because the database itself does this.
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

// failure returns the error that makes a store fail, because it is unknown what is stored.
func failure(err error) error {
	if lost, ok := errors.AsType[*fencing.DataLossError](err); ok {
		err = layout.Damaged("", "%v", lost)
	}
	return fmt.Errorf("%w: %w", machine.ErrIndeterminate, err)
}

// CheckSpace returns an error while the database is unavailable or its disk is full.
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

// unread returns the error for clients after a read got no answer. Either the database is unavailable,
// or the partition has another owner. In the second case the store fails soon, and the results of reads
// until then are also unknown.
func (d *Database) unread(err error) error {
	if pg.IsForeign(err) {
		return failure(err)
	}
	return &machine.Error{
		Code: machine.CodeUnavailable, Reason: Away, RetryAfter: retryAfter,
		Message: fmt.Sprintf("%s: %v; nothing is lost, and it is tried on", d.cfg.URL, err),
	}
}

// Settled does nothing, because the commit itself stores the group's number.
func (d *Database) Settled(engine.Group) error { return nil }

// BeginLargeDelete does no work.
func (d *Database) BeginLargeDelete() (release func()) { return func() {} }

// Removed does no work.
func (d *Database) Removed(int64) {}

// Fatal returns a channel that never receives an error, because a commit that fails is retried. Only a
// store that is closing stops retrying after some time, see [Database.StartMaintenance].
func (d *Database) Fatal() <-chan error { return nil }

// Check returns an error if the store belongs to another process.
func (d *Database) Check() error {
	if err := d.Owner().Err(); err != nil {
		return failure(err)
	}
	return nil
}

// measuring is the interval at which the tables are measured.
const measuring = time.Minute

// Sync syncs nothing, because every commit is durable. At regular intervals it measures the tables. If
// the database does not answer, the last measured size stays.
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

// Scrub does nothing, because the database has its own checksums.
func (d *Database) Scrub(context.Context) error { return nil }

// Sizes returns the size of the tables in bytes. log is 0, because no values are stored separately.
func (d *Database) Sizes() (tree, log int64) { return d.size.Load(), 0 }

// Close gives the store back.
func (d *Database) Close() error { return errors.Join(d.keys.Close(), d.DB.Close()) }
