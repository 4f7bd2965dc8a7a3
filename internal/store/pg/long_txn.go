package pg

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// finishing limits the wait for the commit of a long transaction. It is long because a synchronous
// standby must first receive the whole transaction.
const finishing = 10 * time.Minute

// longTxn is one transaction that changes several partitions. The partition of db stays owned until the
// last step of the transaction, so that no node serves the store in the meantime. If the transaction is
// interrupted, nothing is changed.
type longTxn struct {
	db      *DB
	session *session
	ctx     context.Context //nolint:containedctx // that of the one call that it is for
	// stop detaches the connection from ctx. It returns false if ctx has ended, which has closed the
	// connection.
	stop func() bool
	// released means that this process no longer owns the partition.
	released bool
}

// beginLongTxn begins a transaction that changes several partitions. Its end closes d. If beginLongTxn
// returns an error, d is already closed.
func (d *DB) beginLongTxn(ctx context.Context) (*longTxn, error) {
	l := &longTxn{db: d, ctx: ctx, stop: func() bool { return true }}
	var err error
	if l.session, err = openSession(d.at.conn, false); err != nil {
		return nil, errors.Join(err, l.release())
	}
	l.stop = context.AfterFunc(ctx, l.session.close)
	if _, err = l.session.conn.Exec(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// exec executes a statement of the transaction.
func (l *longTxn) exec(ctx context.Context, text string, args ...any) error {
	_, err := l.session.conn.Exec(ctx, inSchema(text, l.db.cfg.Schema), append([]any{pgx.QueryExecModeExec}, args...)...)
	return err
}

// execOne executes a statement of the last step of the transaction. The statement must change exactly one
// row. If it changes none, another session has changed the partition, and the error is errForeign.
func (l *longTxn) execOne(text string, args ...any) error {
	done, err := l.session.conn.Exec(context.Background(), inSchema(text, l.db.cfg.Schema), append([]any{pgx.QueryExecModeExec}, args...)...)
	if err == nil && done.RowsAffected() != 1 {
		err = errForeign
	}
	return err
}

// enableWarnings turns on warnings in the transaction. A commit with a warning does not count as a success, and
// an earlier user of the session may have turned warnings off.
const enableWarnings = "SET LOCAL client_min_messages = 'warning'"

// end releases the partition, runs the statements of last, and commits. The statements of last check
// the epoch. They fail if another process has taken over the partition after the release.
func (l *longTxn) end(last func(epoch int64) error) error {
	epoch, err := l.db.epoch(l.ctx)
	if err != nil {
		return err
	}
	if err := l.release(); err != nil || !l.stop() {
		return errors.Join(err, l.ctx.Err())
	}
	err = l.session.do(l.db.cfg.Timeouts.Statement, func() error {
		if err := l.exec(context.Background(), enableWarnings); err != nil {
			return err
		}
		return last(epoch)
	})
	if err != nil {
		return err
	}
	return l.session.do(finishing, func() error { return l.exec(context.Background(), "COMMIT") })
}

// epoch returns the current epoch of the partition. If another owner has the partition, the error is
// errForeign.
func (d *DB) epoch(ctx context.Context) (epoch int64, err error) {
	err = d.at.pool.QueryRow(ctx, inSchema(oursText, d.cfg.Schema), d.cfg.Part, d.cfg.Owner).Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errForeign
	}
	return epoch, err
}

// putText stores the partition of each namespace. It moves a namespace only out of partition 0.
const putText = `INSERT INTO {s}.namespace (name, part) SELECT * FROM unnest($1::text[], $2::integer[])
	ON CONFLICT (name) DO UPDATE SET part = excluded.part WHERE namespace.part IN (0, excluded.part)`

// storePlacements stores the partitions of namespaces as part of the transaction. A node may place namespaces
// at the same time. It locks the table for that, so one of the two waits and finds the result of the other.
func (l *longTxn) storePlacements(places map[string]int32) error {
	if len(places) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(places))
	parts := make([]int32, len(names))
	for i, name := range names {
		parts[i] = places[name]
	}
	done, err := l.session.conn.Exec(context.Background(), inSchema(putText, l.db.cfg.Schema), pgx.QueryExecModeExec, names, parts)
	if err == nil && done.RowsAffected() != int64(len(names)) {
		err = fmt.Errorf("one of the namespaces %q is in another partition already", names)
	}
	return err
}

// Close rolls back everything that was not committed, and releases the partition.
func (l *longTxn) Close() error {
	l.stop()
	l.session.close()
	return l.release()
}

// release ends the ownership of the partition. Later calls do nothing.
func (l *longTxn) release() error {
	if l.released {
		return nil
	}
	l.released = true
	return l.db.Close()
}
