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

// finishing limits the wait for the end of a long transaction, because every standby must first
// receive all of it.
const finishing = 10 * time.Minute

// longTxn is one transaction that changes several partitions. One of them is owned until the last
// step, so that no node serves the store in the meantime. After an interruption nothing is changed.
type longTxn struct {
	db      *DB
	session *session
	ctx     context.Context //nolint:containedctx // that of the one call that it is for
	// stop detaches the connection from ctx. It returns false if ctx has already ended the
	// connection.
	stop func() bool
	// released means that the partition was given back.
	released bool
}

// beginLongTxn begins the transaction. On an error it closes d; otherwise the transaction's end
// closes d.
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

// one executes a statement of the last step. The statement must change exactly one row, which shows
// that the partition is unchanged. Otherwise the error is errForeign.
func (l *longTxn) one(text string, args ...any) error {
	done, err := l.session.conn.Exec(context.Background(), inSchema(text, l.db.cfg.Schema), append([]any{pgx.QueryExecModeExec}, args...)...)
	if err == nil && done.RowsAffected() != 1 {
		err = errForeign
	}
	return err
}

// warned turns warnings on, because an earlier user of the session may have turned them off. A
// commit that returns a warning is not a success.
const warned = "SET LOCAL client_min_messages = 'warning'"

// end gives the partition back, runs the statements of last, and commits. Once the partition is given
// back, these statements are the fence: if another process takes the partition over in the meantime,
// the partition has another epoch and they fail.
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

// epoch returns the present epoch of the partition. If the partition belongs to another owner, the
// error is errForeign.
func (d *DB) epoch(ctx context.Context) (epoch int64, err error) {
	err = d.at.pool.QueryRow(ctx, inSchema(oursText, d.cfg.Schema), d.cfg.Part, d.cfg.Owner).Scan(&epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errForeign
	}
	return epoch, err
}

// putText assigns partitions to namespaces that are in partition 0 or in none.
const putText = `INSERT INTO {s}.namespace (name, part) SELECT * FROM unnest($1::text[], $2::integer[])
	ON CONFLICT (name) DO UPDATE SET part = excluded.part WHERE namespace.part IN (0, excluded.part)`

// place assigns partitions to namespaces with the commit. The first of two nodes that do so locks
// the table, and the other one waits for it and then finds its result.
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

// Close rolls back everything that was not committed, and gives the partition back.
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
