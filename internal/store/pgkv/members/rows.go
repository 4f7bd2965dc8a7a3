package members

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/assure"
	"github.com/pawl-dev/pawl/internal/store/pgkv"
)

// Config of the rows; Via is required.
type Config struct {
	// Via is the database, with tables that are this program's.
	Via *pgkv.Reached
	// Kept has the epoch under which this process has the store: that of [pgkv.Config]. Nil: it
	// never has it.
	Kept *atomic.Uint64
	// Lease is how long a node lives without a word, and how long it keeps the store. Default 3 s,
	// as that of a store.
	Lease time.Duration
	// Wait bounds what the database is waited for by one call, which may ask twice. Default: a
	// third of the lease.
	Wait time.Duration
}

// Node is one that lives.
type Node struct {
	// ID is new with every process; Address is where its peers reach it, Key what it shows them.
	ID, Address string
	Key         [32]byte
	// Leaving: it gives away what it has and takes nothing.
	Leaving bool
	// Speaks is the newest format that it keeps the store in.
	Speaks uint32
}

// View is what there is at one moment.
type View struct {
	// Nodes are those that live, in the order in which they came.
	Nodes []Node
	// Owner has the store, by a lease that holds; the zero value: nobody. Its id is not among the
	// nodes if it is a process that is none; then it has no key.
	Owner Node
	// Lease is what is left of the owner's, at least, from the moment of the call.
	Lease time.Duration
	// Format is the one that the store is kept in; zero: nobody has made it yet.
	Format uint32
}

// Rows are those of a cluster. Safe for concurrent use.
type Rows struct {
	cfg  Config
	text statements
	talk *pgkv.Talk
}

// Open says nothing to the database.
func Open(cfg Config) *Rows {
	if cfg.Lease == 0 {
		cfg.Lease = 3 * time.Second
	}
	if cfg.Wait == 0 {
		cfg.Wait = cfg.Lease / 3
	}
	if cfg.Kept == nil {
		cfg.Kept = new(atomic.Uint64)
	}
	return &Rows{cfg: cfg, text: statementsOf(cfg.Via.Schema()), talk: cfg.Via.Talk()}
}

// Beat says that a node lives, renews the lease of the store if this process has it, and tells
// what there is. Errors: *[assure.Error]. After one it may have been said, or not.
func (r *Rows) Beat(ctx context.Context, me Node) (View, error) {
	var v View
	err := r.say(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, r.text.beat, pgx.QueryResultFormats{pgx.BinaryFormatCode}, pgx.QueryExecModeExec,
			me.ID, me.Address, me.Key[:], me.Leaving, int64(r.cfg.Kept.Load()), r.cfg.Lease.Microseconds(), fmt.Sprintf("%dms", max(1, r.cfg.Wait.Milliseconds()/2)),
			int32(me.Speaks))
		if err != nil {
			return err
		}
		v, err = read(rows)
		return err
	})
	return v, err
}

// read reads the nodes, then the owner.
func read(rows pgx.Rows) (v View, err error) {
	defer rows.Close()
	for rows.Next() {
		var n Node
		var sort, left int64
		var key []byte
		if err := rows.Scan(&sort, &n.ID, &n.Address, &key, &n.Leaving, &n.Speaks, nil, &left, &v.Format, nil); err != nil {
			return v, err
		}
		copy(n.Key[:], key)
		if sort == 0 {
			v.Nodes = append(v.Nodes, n)
			continue
		}
		v.Owner, v.Lease = n, max(0, time.Duration(left)*time.Microsecond)
	}
	return v, rows.Err()
}

// Leave takes the row of a node away. Errors: *[assure.Error].
func (r *Rows) Leave(ctx context.Context, me Node) error {
	return r.say(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, r.text.leave, pgx.QueryExecModeExec, me.ID)
		return err
	})
}

// say says it twice, if there is no answer: saying it again changes nothing.
func (r *Rows) say(ctx context.Context, speak func(conn *pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("the rows of nodes: %w", err)
	}
	return assure.Told(r.cfg.Via.URL().String(), r.talk.Again(r.cfg.Wait, speak))
}

// Close ends the connection.
func (r *Rows) Close() { r.talk.Close() }
