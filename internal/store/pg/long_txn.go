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

// finishing limits the wait for the end of a long transaction. It is long because every standby must
// first receive the whole transaction.
const finishing = 10 * time.Minute

// longTxn is one transaction that changes several partitions. One of these is owned until the last
// step, so that no node serves the store in the meantime. If the transaction is interrupted, nothing is
// changed.
type longTxn struct {
	db      *DB
	session *session
	ctx     context.Context //nolint:containedctx // that of the one call that it is for
	// stop detaches the connection from ctx. It returns false if ctx has ended and the connection is
	// already closed for this reason.
	stop func() bool
	// released means that the partition was given back.
	released bool
}

// beginLongTxn begins the transaction. If there is an error, beginLongTxn closes d. Otherwise the end
// of the transaction closes d.
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

// one executes a statement of the last step. The statement must change exactly one row. This proves
// that the partition is unchanged. Otherwise the error is errForeign.
func (l *longTxn) one(text string, args ...any) error {
	done, err := l.session.conn.Exec(context.Background(), inSchema(text, l.db.cfg.Schema), append([]any{pgx.QueryExecModeExec}, args...)...)
	if err == nil && done.RowsAffected() != 1 {
		err = errForeign
	}
	return err
}

// warned turns on warnings, because an earlier user of the session may have turned them off. A commit
// that returns a warning is not treated as a success.
const warned = "SET LOCAL client_min_messages = 'warning'"

// end releases the partition, runs the statements of last, and commits. After the release, these
// statements are the fence. If another process takes the partition over in the meantime, the partition
// has another epoch and the statements fail.
func (l *longTxn) end(last func(epoch int64) error) error {
	epoch, err := l.db.epoch(l.ctx)
	if err != nil {
		return err
	}
	if err := l.release(); err != nil || !l.stop() {
		return errors.Join(err, l.ctx.Err())
	}
	err = l.session.do(l.db.cfg.Timeouts.Statement, func() error {
		if err := l.exec(context.Background(), warned); err != nil {
			return err
		}
		return last(epoch)
	})
	if err != nil {
		return err
	}
	return l.session.do(finishing, func() error { return l.exec(context.Background(), "COMMIT") })
}

// epoch returns the current epoch of the partition. If the partition belongs to another owner, the
// error is errForeign.
func (d *DB) epoch(ctx context.Context) (epoch int64, err error) {
	err = d.at.pool.QueryRow(ctx, inSchema(oursText, d.cfg.Schema), d.cfg.Part, d.cfg.Owner).Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errForeign
	}
	return epoch, err
}

// putText assigns partitions to namespaces that have no partition or are in partition 0.
const putText = `INSERT INTO {s}.namespace (name, part) SELECT * FROM unnest($1::text[], $2::integer[])
	ON CONFLICT (name) DO UPDATE SET part = excluded.part WHERE namespace.part IN (0, excluded.part)`

// place assigns partitions to namespaces. The assignment is part of the transaction. If two nodes do
// this at the same time, the first one locks the table. The other one waits and then finds the result
// of the first.
func (l *longTxn) place(places map[string]int32) error {
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

// release gives the partition back, once.
func (l *longTxn) release() error {
	if l.released {
		return nil
	}
	l.released = true
	return l.db.Close()
}
