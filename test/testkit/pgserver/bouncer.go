package pgserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Bouncer starts a PgBouncer in front of the server, in transaction mode and with its
// defaults, until the test ends, and answers where it listens.
func (s *Server) Bouncer(tb testing.TB) (addr string) {
	tb.Helper()
	pgbouncer := "/usr/sbin/pgbouncer" // Debian's place, in no user's PATH
	if found, err := exec.LookPath("pgbouncer"); err == nil {
		pgbouncer = found
	}
	where, err := newPlace()
	if err != nil {
		tb.Fatal(err)
	}
	port, err := freePort()
	if err != nil {
		tb.Fatal(errors.Join(err, os.RemoveAll(where.dir)))
	}
	config := filepath.Join(where.dir, "pgbouncer.ini")
	cmd := exec.Command(pgbouncer, "-q", config)
	err = errors.Join(os.WriteFile(config, []byte(s.bouncerConfig(port)), 0o600), chownToServer(config), launch(cmd))
	if err != nil {
		where.remove()
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(quit)
		_ = cmd.Wait()
		where.remove()
	})
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	if !waitFor(func() bool { return isReachable(tb, addr) }) {
		tb.Fatal("PgBouncer does not answer after a minute")
	}
	return addr
}

func (s *Server) bouncerConfig(port int) string {
	host, serverPort, _ := net.SplitHostPort(s.Addr())
	return strings.Join([]string{
		"[databases]",
		fmt.Sprintf("* = host=%s port=%s user=%s", host, serverPort, userName),
		"[pgbouncer]",
		"listen_addr = 127.0.0.1",
		fmt.Sprintf("listen_port = %d", port),
		"unix_socket_dir =",
		"auth_type = any",
		"pool_mode = transaction",
		"",
	}, "\n")
}

// isReachable reports whether a database can be had at an address.
func isReachable(tb testing.TB, addr string) bool {
	tb.Helper()
	conn, err := pgconn.Connect(tb.Context(), URL("postgres", addr))
	if err != nil {
		return false
	}
	_ = conn.Close(tb.Context())
	return true
}
