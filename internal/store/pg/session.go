package pg

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// session is the connection of commits. It is cut and never cancelled: PostgreSQL answers the
// cancelled wait for a standby with a success.
type session struct {
	conn *pgx.Conn
	// raw is the connection below the encryption.
	raw net.Conn
	// made: it is connected, and makes no connection by which it would cancel.
	made atomic.Bool
	// notice is the last one since the statement began.
	notice *pgconn.Notice
	// named: statements may be given names, those of texts that were sent are in names.
	named bool
	names map[string]string
}

var errNoCancel = errors.New("nothing is cancelled")

// NoticeError: the database answered with success and a word besides. Of a commit that may
// mean that only one machine has it.
type NoticeError struct{ Severity, Code, Message string }

// Error is what it said.
func (e *NoticeError) Error() string {
	return fmt.Sprintf("the database answered with a %s (SQLSTATE %s): %s", e.Severity, e.Code, e.Message)
}

// openSession connects.
func openSession(cfg *pgx.ConnConfig, named bool) (*session, error) {
	l := &session{named: named, names: make(map[string]string)}
	cfg = cfg.Copy()
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.made.Load() {
			return nil, errNoCancel
		}
		return dial(ctx, network, address)
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { l.notice = n }
	ctx, cancel := context.WithTimeout(context.Background(), cfg.ConnectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	l.conn, l.raw = conn, below(conn.PgConn().Conn())
	l.made.Store(true)
	return l, nil
}

// below is the connection that an encrypted one uses. It is asked of the connection that was
// made: while it was, others may have been, to hosts that did not do, or to end those.
func below(conn net.Conn) net.Conn {
	if encrypted, ok := conn.(*tls.Conn); ok {
		return encrypted.NetConn()
	}
	return conn
}

// close ends the connection without a word: what is under way goes on over there, or not.
func (l *session) close() { _ = l.raw.Close() }

// do waits so long for what speaks to the database, and then cuts. A notice is no success.
func (l *session) do(wait time.Duration, speak func() error) error {
	l.notice = nil
	timer := time.AfterFunc(wait, l.close)
	err := speak()
	if !timer.Stop() && err != nil {
		return fmt.Errorf("no answer within %v: %w", wait, err)
	}
	if err == nil && l.notice != nil {
		return &NoticeError{l.notice.SeverityUnlocalized, l.notice.Code, l.notice.Message}
	}
	return err
}

// rows runs a statement with parameters in the binary format, and says how many rows came.
func (l *session) rows(text string, types []uint32, params [][]byte) (int, error) {
	ctx, conn := context.Background(), l.conn.PgConn()
	name, prepared := l.names[text]
	if l.named && !prepared {
		name = fmt.Sprintf("pawl_%d", len(l.names))
		if _, err := conn.Prepare(ctx, name, text, types); err != nil {
			return 0, err
		}
		l.names[text] = name
	}
	var result *pgconn.ResultReader
	if l.named {
		result = conn.ExecPrepared(ctx, name, params, inBinary, inBinary)
	} else {
		result = conn.ExecParams(ctx, text, params, types, inBinary, inBinary)
	}
	n := 0
	for result.NextRow() {
		n++
	}
	_, err := result.Close()
	return n, err
}

// inBinary is the format of all parameters and columns.
var inBinary = []int16{pgx.BinaryFormatCode}
