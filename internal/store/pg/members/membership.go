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

// Config configures a Membership. Pool is required.
type Config struct {
	// Pool is the connection pool of the database, whose schema this program must support.
	Pool *pg.Pool
	// RenewedEpochs contains the epochs (numbers of ownership) under which this process owns
	// partitions, see RenewedEpoch in [pg.Config]. Heartbeats renew the leases of these partitions. If
	// it is nil, this process never owns partitions.
	RenewedEpochs *Epochs
	// Lease is how long a node counts as running after a heartbeat, and how long it keeps its
	// partitions. Default 3 s, as in a store.
	Lease time.Duration
	// Wait limits how long one call waits for the database. A call may send its statement twice.
	// Default: a third of the lease.
	Wait time.Duration
}

// Epochs contains, for each partition, the epoch under which this process owns it, or zero if it does
// not own it.
type Epochs [pg.Partitions]atomic.Uint64

// ownedPartitions returns the partitions that this process owns, and their epochs.
func (e *Epochs) ownedPartitions() (parts []int32, epochs []int64) {
	parts, epochs = []int32{}, []int64{}
	for p := range e {
		if epoch := e[p].Load(); epoch != 0 {
			parts, epochs = append(parts, int32(p)), append(epochs, int64(epoch))
		}
	}
	return parts, epochs
}

// Node is a running node of the cluster.
type Node struct {
	// ID is a new id for every process. Address is the address at which other nodes reach the node. Key
	// is the digest of the certificate by which they recognize it.
	ID, Address string
	Key         [32]byte
	// Leaving means that the node is shutting down: it hands over its partitions to other nodes and
	// takes over none.
	Leaving bool
	// Speaks is the newest storage format in which the node can keep a partition.
	Speaks uint32
	// Parts has the bit p set if the node can take over partition p.
	Parts uint64
	// New means that less than the length of a lease has passed between the first and the last
	// heartbeat of the node. The database computes it.
	New bool
}

// Partition describes a partition of the store and its owner.
type Partition struct {
	ID int32
	// Owner is the node with a valid lease on the partition. The zero value means that no node has one.
	// An owner that is not a node of the cluster is not in the list of nodes and has no key.
	Owner Node
	// Lease is the minimum remaining time of the owner's lease, measured from the time of the call.
	Lease time.Duration
	// Format is the format of the partition.
	Format uint32
	// NonEmpty means that the partition has rows.
	NonEmpty bool
}

// View is the state of the cluster at one moment.
type View struct {
	// Nodes are the running nodes, in the order in which they joined.
	Nodes []Node
	// Parts are all partitions of the store, in the order of their numbers.
	Parts []Partition
}

// Membership reads and writes the rows of nodes and namespaces of a cluster. Safe for concurrent use.
type Membership struct {
	cfg  Config
	text statements
	conn *pg.SerialConn
}

// Open creates a Membership. It does not call the database.
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

// Heartbeat reports that a node is running, renews the leases of the partitions that this process owns,
// and returns the state of the cluster. Errors: *[preflight.Error]. After an error, the heartbeat may
// or may not have been stored.
func (r *Membership) Heartbeat(ctx context.Context, me Node) (v View, err error) {
	parts, epochs := r.cfg.RenewedEpochs.ownedPartitions()
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

// locked returns the lock timeout for a statement: half of wait, the total time that the statement may
// take.
func locked(wait time.Duration) string { return fmt.Sprintf("%dms", max(1, wait.Milliseconds()/2)) }

// read decodes the rows of a heartbeat's answer: the nodes, and then the partitions.
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

// Deregister removes the row of a node. Errors: *[preflight.Error].
func (r *Membership) Deregister(ctx context.Context, me Node) error {
	return r.exec(ctx, r.conn, r.cfg.Wait, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, r.text.deregister, pgx.QueryExecModeExec, me.ID)
		return err
	})
}

// exec runs an idempotent statement. If no answer arrives, it sends the statement a second time. If ctx has
// already ended, it sends nothing and returns the error of ctx.
func (r *Membership) exec(ctx context.Context, talk *pg.SerialConn, wait time.Duration, speak func(conn *pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the rows of nodes: %w", err)
	}
	return preflight.Classify(r.cfg.Pool.URL().String(), talk.DoRetry(wait, speak))
}

// Close closes the connection.
func (r *Membership) Close() { r.conn.Close() }
