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

// session is a connection for commits and for other statements that must not be cancelled. It may be closed,
// but a statement on it is never cancelled: PostgreSQL answers with success if a wait for a standby is
// cancelled.
type session struct {
	conn *pgx.Conn
	// raw is the network connection below the encryption.
	raw net.Conn
	// connected means that the session is connected. After that, the session refuses to open another network
	// connection, because pgx opens one only to cancel a statement.
	connected atomic.Bool
	// notice is the last notice that arrived after the statement began.
	notice *pgconn.Notice
	// named reports whether statements may be prepared under a name. names maps the texts of prepared
	// statements to these names.
	named bool
	names map[string]string
}

var errNoCancel = errors.New("nothing is cancelled")

// NoticeError means that the database answered with both success and a notice. For a commit, the notice
// may mean that only one machine has stored it.
type NoticeError struct{ Severity, Code, Message string }

// Error returns the text of the notice.
func (e *NoticeError) Error() string {
	return fmt.Sprintf("the database answered with a %s (SQLSTATE %s): %s", e.Severity, e.Code, e.Message)
}

// openSession opens the connection of a session. named reports whether it may prepare statements under
// a name.
func openSession(cfg *pgx.ConnConfig, named bool) (*session, error) {
	l := &session{named: named, names: make(map[string]string)}
	cfg = cfg.Copy()
	dial := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if l.connected.Load() {
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
	l.connected.Store(true)
	return l, nil
}

// below returns the TCP connection below the TLS connection conn, or conn itself if there is no TLS. The result is
// valid only after the connection is established, because pgx may have tried other hosts before.
func below(conn net.Conn) net.Conn {
	if encrypted, ok := conn.(*tls.Conn); ok {
		return encrypted.NetConn()
	}
	return conn
}

// close closes the connection without a message to the server, on which a running statement may still
// complete.
func (l *session) close() { _ = l.raw.Close() }

// do calls speak, which sends statements to the database and waits for the answers. If this takes
// longer than wait, do closes the connection. A notice of the server is treated as an error.
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

// rows runs a statement with parameters in the binary format. It returns the number of rows in the
// answer.
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

// inBinary requests the binary format for all parameters and columns of a statement.
var inBinary = []int16{pgx.BinaryFormatCode}
