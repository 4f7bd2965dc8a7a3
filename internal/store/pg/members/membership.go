package members

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/pg"
	"github.com/pawl-dev/pawl/internal/store/pg/preflight"
)

// Config of the rows; Via is required.
type Config struct {
	// Pool is the database, with tables that are this program's.
	Pool *pg.Pool
	// RenewedEpochs has the epochs under which this process has partitions: each is that of [pg.Config].
	// Nil: it never has any.
	RenewedEpochs *Epochs
	// Lease is how long a node lives without a word, and how long it keeps partitions. Default 3 s,
	// as that of a store.
	Lease time.Duration
	// Wait bounds what the database is waited for by one call, which may ask twice. Default: a
	// third of the lease.
	Wait time.Duration
}

// Epochs has, by partition, the epoch under which this process has it; zero: it has not.
type Epochs [pg.Partitions]atomic.Uint64

// held are the partitions that it has, and under which epochs.
func (e *Epochs) held() (parts []int32, epochs []int64) {
	parts, epochs = []int32{}, []int64{}
	for p := range e {
		if epoch := e[p].Load(); epoch != 0 {
			parts, epochs = append(parts, int32(p)), append(epochs, int64(epoch))
		}
	}
	return parts, epochs
}

// Node is one that lives.
type Node struct {
	// ID is new with every process; Address is where its peers reach it, Key what it shows them.
	ID, Address string
	Key         [32]byte
	// Leaving means that the node hands over its partitions and takes over none.
	Leaving bool
	// Speaks is the newest format that it keeps a partition in.
	Speaks uint32
	// Parts has bit p set if it would take partition p.
	Parts uint64
	// New means that the node's last heartbeat came less than a lease after its first. The
	// database computes it.
	New bool
}

// Partition is a partition.
type Partition struct {
	ID int32
	// Owner is the node with a valid lease on the partition; the zero value: none. An owner
	// that is not a node of the cluster is missing from the nodes, and has no key.
	Owner Node
	// Lease is what is left of the owner's, at least, from the moment of the call.
	Lease time.Duration
	// Format is the one that it is kept in.
	Format uint32
	// NonEmpty means that the partition has rows.
	NonEmpty bool
}

// View is what there is at one moment.
type View struct {
	// Nodes are those that live, in the order in which they came.
	Nodes []Node
	// Parts are all that there are, by number.
	Parts []Partition
}

// Membership are those of a cluster. Safe for concurrent use.
type Membership struct {
	cfg  Config
	text statements
	conn *pg.SerialConn
}

// Open makes a Membership. It does not call the database.
func Open(cfg Config) *Membership {
	if cfg.Lease == 0 {
		cfg.Lease = 3 * time.Second
	}
	if cfg.Wait == 0 {
		cfg.Wait = cfg.Lease / 3
	}
	if cfg.RenewedEpochs == nil {
		cfg.RenewedEpochs = new(Epochs)
	}
	text := statementsOf(cfg.Pool.Schema())
	text.seed = cfg.Pool.SeedText()
	return &Membership{cfg: cfg, text: text, conn: cfg.Pool.SerialConn()}
}

// Heartbeat says that a node lives, renews the leases of the partitions that this process has, and
// tells what there is. Errors: *[preflight.Error]. After one it may have been said, or not.
func (r *Membership) Heartbeat(ctx context.Context, me Node) (v View, err error) {
	parts, epochs := r.cfg.RenewedEpochs.held()
	err = r.exec(ctx, r.conn, r.cfg.Wait, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, r.text.heartbeat, pgx.QueryResultFormats{pgx.BinaryFormatCode}, pgx.QueryExecModeExec,
			me.ID, me.Address, me.Key[:], me.Leaving, int32(me.Speaks), int64(me.Parts), parts, epochs,
			r.cfg.Lease.Microseconds(), locked(r.cfg.Wait))
		if err != nil {
			return err
		}
		v, err = read(rows)
		return err
	})
	return v, err
}

// locked is how long a lock is waited for by what is waited for so long.
func locked(wait time.Duration) string { return fmt.Sprintf("%dms", max(1, wait.Milliseconds()/2)) }

// read reads the nodes, then the partitions.
func read(rows pgx.Rows) (v View, err error) {
	defer rows.Close()
	for rows.Next() {
		var n Node
		var p Partition
		var sort, parts, left int64
		var key []byte
		if err := rows.Scan(&sort, &p.ID, &n.ID, &n.Address, &key, &n.Leaving, &n.Speaks, &parts, nil, &n.New, &left, &p.Format, &p.NonEmpty, nil); err != nil {
			return v, err
		}
		copy(n.Key[:], key)
		n.Parts = uint64(parts)
		if sort == 0 {
			v.Nodes = append(v.Nodes, n)
			continue
		}
		if left > 0 {
			p.Owner, p.Lease = n, time.Duration(left)*time.Microsecond
		}
		v.Parts = append(v.Parts, p)
	}
	return v, rows.Err()
}

// Deregister takes the row of a node away. Errors: *[preflight.Error].
func (r *Membership) Deregister(ctx context.Context, me Node) error {
	return r.exec(ctx, r.conn, r.cfg.Wait, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, r.text.deregister, pgx.QueryExecModeExec, me.ID)
		return err
	})
}

// exec sends the statement a second time if there is no answer. The statement is idempotent.
func (r *Membership) exec(ctx context.Context, talk *pg.SerialConn, wait time.Duration, speak func(conn *pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the rows of nodes: %w", err)
	}
	return preflight.Classify(r.cfg.Pool.URL().String(), talk.DoRetry(wait, speak))
}

// Close ends the connection.
func (r *Membership) Close() { r.conn.Close() }
