package pg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/keyring"
)

// keysPage is the number of bytes of run keys that are stored in one row (a page). No key crosses the
// boundary of a row.
const keysPage = 512

// Keys returns the medium that stores the keys of erasable runs in the database. It has a connection of its
// own, so that a reader of a view that needs a key does not wait for other views. Tests pass step, which is
// called before and after each write and can make it fail. Only the owner of the partition may write.
func (d *DB) Keys(step func(what string) error) keyring.Medium {
	if step == nil {
		step = func(string) error { return nil }
	}
	return &keys{db: d, step: step, conn: d.at.SerialConn()}
}

type keys struct {
	db   *DB
	step func(what string) error

	conn *SerialConn
	// vacuuming is used to wait for the running vacuums of the table of keys.
	vacuuming sync.WaitGroup
}

// Size returns the number of stored bytes, up to the end of the last page.
func (k *keys) Size() (bytes int64, there bool, err error) {
	err = k.conn.DoRetry(k.db.cfg.Timeouts.Statement, func(conn *pgx.Conn) error {
		var page, size int64
		err := conn.QueryRow(context.Background(), k.db.text.keysSize, pgx.QueryExecModeExec, k.db.cfg.Part).Scan(&page, &size)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		bytes, there = page*keysPage+size, err == nil
		return err
	})
	return bytes, there, err
}

// ReadAt reads the pages that contain the requested bytes.
func (k *keys) ReadAt(b []byte, at int64) (int, error) {
	first := at / keysPage
	pages, err := k.pages(first, (at+int64(len(b))-1)/keysPage)
	if err != nil {
		return 0, err
	}
	var all []byte
	for page := first; pages[page] != nil; page++ {
		all = append(all, pages[page]...)
	}
	n := 0
	if skip := at - first*keysPage; skip < int64(len(all)) {
		n = copy(b, all[skip:])
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// pages reads the pages first to last.
func (k *keys) pages(first, last int64) (pages map[int64][]byte, err error) {
	err = k.conn.DoRetry(k.db.cfg.Timeouts.Statement, func(conn *pgx.Conn) error {
		pages = make(map[int64][]byte)
		rows, err := conn.Query(context.Background(), k.db.text.keysRead, pgx.QueryResultFormats{pgx.BinaryFormatCode}, pgx.QueryExecModeExec, k.db.cfg.Part, first, last)
		return readAll(rows, err, func(rows pgx.Rows) error {
			var page int64
			var bytes []byte
			err := rows.Scan(&page, &bytes)
			pages[page] = bytes
			return err
		})
	})
	return pages, err
}

// Create writes the header of the keys, which fills the first page.
func (k *keys) Create(header []byte) error { return k.Write("header", header, 0) }

// Write writes b at the offset at. It stores whole pages, and keeps the bytes of a page that b does not
// cover.
func (k *keys) Write(what string, b []byte, at int64) error {
	if err := k.step(what); err != nil {
		return err
	}
	first := at / keysPage
	old, err := k.pages(first, (at+int64(len(b))-1)/keysPage)
	if err != nil {
		return err
	}
	var w keysWrite
	for page := first; len(b) > 0; page++ {
		from := max(0, at-page*keysPage)
		n := min(int64(len(b)), keysPage-from)
		w.add(page, old[page], from, b[:n])
		b = b[n:]
	}
	if err := k.store(&w); err != nil {
		return err
	}
	if what == "destroy" {
		k.vacuum()
	}
	return k.step(what + " sync")
}

// keysWrite collects the pages that one statement writes: new pages, and changed pages with their old and new
// bytes. creationTimes are the numbers of the new pages, and bytes their contents.
type keysWrite struct {
	creationTimes []int64
	bytes         [][]byte
	changed       []int64
	old           [][]byte
	changes       [][]byte
}

func (w *keysWrite) add(page int64, old []byte, from int64, piece []byte) {
	whole := make([]byte, max(int64(len(old)), from+int64(len(piece))))
	copy(whole, old)
	copy(whole[from:], piece)
	if old == nil {
		w.creationTimes, w.bytes = append(w.creationTimes, page), append(w.bytes, whole)
		return
	}
	w.changed, w.old, w.changes = append(w.changed, page), append(w.old, old), append(w.changes, whole)
}

func (k *keys) store(w *keysWrite) error {
	return k.conn.Do(k.db.cfg.Timeouts.Statement, func(conn *pgx.Conn) error {
		var written int
		cfg := &k.db.cfg
		err := conn.QueryRow(context.Background(), k.db.text.keysWrite, pgx.QueryExecModeExec,
			cfg.Part, cfg.Owner, w.creationTimes, w.bytes, w.changed, w.old, w.changes).Scan(&written, nil)
		if err == nil && written != len(w.creationTimes)+len(w.changed) {
			return fmt.Errorf("%d of %d pages of keys were written: the partition is another's, or an earlier write arrived meanwhile", written, len(w.creationTimes)+len(w.changed))
		}
		return err
	})
}

// vacuum makes the server remove old row versions, which may contain destroyed keys. It does not remove
// versions that a transaction still sees. It runs in the background. If it fails, the server's
// autovacuum removes the versions later.
func (k *keys) vacuum() {
	k.vacuuming.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), k.db.cfg.Timeouts.Read)
		defer cancel()
		if _, err := k.db.at.pool.Exec(ctx, k.db.text.keysVacuum, pgx.QueryExecModeExec); err != nil {
			k.db.logEvent("vacuum of the keys table failed", err)
		}
	})
}

// Close waits for running vacuums and closes the connection.
func (k *keys) Close() error {
	k.vacuuming.Wait()
	k.conn.Close()
	return nil
}
