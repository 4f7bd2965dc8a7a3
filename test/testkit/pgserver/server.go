package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// The user and the password of the tests. The servers accept any password. Tests search logs and files for this one.
const (
	userName = "pawl"
	Password = "password-of-tests"
)

// A Server is a PostgreSQL server. Its methods end the test when they cannot do as they say.
type Server struct {
	place    instanceDir
	port     int
	settings map[string]string
	// Of the process that runs now.
	cmd    *exec.Cmd
	exited chan struct{}

	// names numbers its standbys.
	names atomic.Int64
}

// Option says how a server is started.
type Option func(*Server)

// Setting sets what postgresql.conf calls by that name.
func Setting(name, value string) Option {
	return func(s *Server) { s.settings[name] = value }
}

// Durable lets the server sync its files, which tests that cut no power need not.
func Durable() Option { return Setting("fsync", "on") }

// Start starts a server until the test ends.
func Start(tb testing.TB, options ...Option) *Server {
	tb.Helper()
	Require(tb)
	s, err := Launch(options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("what PostgreSQL at %s said:\n%s", s.Addr(), s.Log())
		}
		s.End()
	})
	return s
}

// Launch starts a server for a program that is no test, until [Server.End] or until the
// program ends.
func Launch(options ...Option) (*Server, error) {
	s := &Server{settings: defaults()}
	for _, option := range options {
		option(s)
	}
	var err error
	if s.place, err = newPlace(); err != nil {
		return nil, err
	}
	if err := errors.Join(s.place.fill(), s.listen()); err != nil {
		s.End()
		return nil, err
	}
	return s, nil
}

func defaults() map[string]string {
	return map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
		"fsync":                   "off",
		// Tests of crashes leave dozens of stores open, with half a dozen connections each.
		"max_connections": "500",
		"shared_buffers":  "64MB",
		"timezone":        "UTC",
		"log_timezone":    "UTC",
		"lc_messages":     "C",
		// The shared memory is in the server's directory, so that a killed server leaves no files elsewhere.
		"dynamic_shared_memory_type": "mmap",
		"log_line_prefix":            "%m [%p] %q%a %d ",
		"wal_level":                  "replica",
		"hot_standby":                "on",
	}
}

// listen starts the server on a port that is free. Another process may take it in between.
func (s *Server) listen() error {
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return err
		}
		s.settings["port"] = fmt.Sprint(s.port)
		if err = s.boot(); err == nil || !strings.Contains(err.Error(), "could not bind") {
			return err
		}
	}
	return err
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// boot starts the process and waits until it answers.
func (s *Server) boot() error {
	if err := s.configure(); err != nil {
		return err
	}
	postgres, err := binary("postgres")
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.place.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.cmd = exec.Command(postgres, "-D", s.place.data())
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := launch(s.cmd); err != nil {
		return err
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan<- struct{}) {
		_ = cmd.Wait() // how it ended is in the log
		close(exited)
	}(s.cmd, s.exited)
	return s.answers()
}

// configure writes the settings.
func (s *Server) configure() error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.settings)) {
		fmt.Fprintf(&text, "%s = '%s'\n", name, strings.ReplaceAll(s.settings[name], "'", "''"))
	}
	return s.place.put("postgresql.conf", text.String())
}

// answers waits until the server takes connections.
func (s *Server) answers() error {
	var err error
	if !waitFor(func() bool {
		if !s.runs() {
			err = fmt.Errorf("PostgreSQL ended at its start:\n%s", s.Log())
			return true
		}
		_, err = s.query("postgres", "SELECT 1")
		return err == nil
	}) {
		return fmt.Errorf("PostgreSQL does not answer after a minute: %w\n%s", err, s.Log())
	}
	return err
}

// runs reports whether the process is there.
func (s *Server) runs() bool {
	if s.cmd == nil {
		return false
	}
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// End stops the server and takes its directory away.
func (s *Server) End() {
	if s.runs() {
		signalAll(s.cmd.Process.Pid, resume)
		_ = s.cmd.Process.Signal(quit)
		select {
		case <-s.exited:
		case <-time.After(10 * time.Second):
			killAll(s.cmd.Process.Pid)
		}
	}
	s.place.remove()
}

// Addr is where the server listens.
func (s *Server) Addr() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// URL names a database of the server, with a password.
func (s *Server) URL(database string) string { return URL(database, s.Addr()) }

// URL names a database at any of the addresses, of servers or of relays to them; of several
// the one that takes writes.
func URL(database string, addrs ...string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(userName, Password), Host: strings.Join(addrs, ","), Path: "/" + database}
	query := url.Values{"sslmode": {"disable"}}
	if len(addrs) > 1 {
		query.Set("target_session_attrs", "read-write")
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// Log is what the server said, at most the last 64 KiB.
func (s *Server) Log() string {
	raw, _ := os.ReadFile(s.place.log()) // none: it said nothing
	return string(raw[max(0, len(raw)-64<<10):])
}

// Set changes settings of the running server and waits until new connections have them;
// those that only a start takes are taken by the next [Server.Restart].
func (s *Server) Set(tb testing.TB, settings map[string]string) {
	tb.Helper()
	maps.Copy(s.settings, settings)
	before := s.Query(tb, "postgres", "SELECT pg_conf_load_time()")
	if err := s.configure(); err != nil {
		tb.Fatal(err)
	}
	_ = s.cmd.Process.Signal(reload)
	s.Await(tb, "postgres", "SELECT pg_conf_load_time() <> '"+before+"'")
}

// Query is the first value that a statement answers, as text.
func (s *Server) Query(tb testing.TB, database, sql string) string {
	tb.Helper()
	answer, err := s.query(database, sql)
	if err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return answer
}

// Await waits until a statement answers true; a server that does not answer is asked again.
func (s *Server) Await(tb testing.TB, database, sql string) {
	tb.Helper()
	var last string
	var err error
	if !waitFor(func() bool { last, err = s.query(database, sql); return err == nil && last == "t" }) {
		tb.Fatalf("after a minute %s is %q, %v", sql, last, err)
	}
}

func (s *Server) query(database, sql string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	conn, err := pgconn.Connect(ctx, s.URL(database))
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return "", err
	}
	for _, result := range results {
		if len(result.Rows) > 0 {
			return string(bytes.Clone(result.Rows[0][0])), nil
		}
	}
	return "", nil
}

// Kill ends the server and all its processes by SIGKILL. [Server.Restart] starts it again.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	if !s.runs() {
		tb.Fatal("the server does not run")
	}
	killAll(s.cmd.Process.Pid)
	<-s.exited
}

// Stop shuts the server down: transactions are rolled back, connections closed.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	_ = s.cmd.Process.Signal(fast)
	<-s.exited
}

// Restart starts the server again, at its old address. One that still runs is stopped.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	if s.runs() {
		s.Stop(tb)
	}
	if err := s.boot(); err != nil {
		tb.Fatal(err)
	}
}

// Pause stops the server and all its processes by SIGSTOP. Connections stay open, but get no answer until
// [Server.Resume].
func (s *Server) Pause(tb testing.TB) {
	tb.Helper()
	signalAll(s.cmd.Process.Pid, pause)
}

// Resume ends a pause.
func (s *Server) Resume(tb testing.TB) {
	tb.Helper()
	signalAll(s.cmd.Process.Pid, resume)
}
