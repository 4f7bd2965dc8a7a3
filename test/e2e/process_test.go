package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/child"
	"github.com/pawl-dev/pawl/test/testkit/mcpserver"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

// patience bounds every wait of these tests; none of them takes near as long.
const patience = 60 * time.Second

// buildOnce builds the binary under test; all tests of the package share it.
var buildOnce = sync.OnceValues(func() (string, error) {
	bin, err := child.Build("cmd/sidecar")
	if err == nil && pgserver.StoreWanted() {
		return onPostgres(bin)
	}
	return bin, err
})

// postgres is the server that has the stores of these tests, by PAWL_TEST_STORE=postgres.
var postgres *pgserver.Server

// onPostgres is a program in place of the sidecar's that has each of them keep its store in
// PostgreSQL instead of its directory.
func onPostgres(sidecar string) (string, error) {
	bin, err := child.Build("test/testkit/onpostgres")
	if err != nil {
		return "", err
	}
	if postgres, err = pgserver.Launch(pgserver.Setting("max_connections", "500")); err != nil {
		return "", err
	}
	return bin, errors.Join(os.Setenv("PAWL_TEST_SIDECAR", sidecar), os.Setenv("PAWL_TEST_DATABASE", postgres.URL("postgres")))
}

// deadline is the context of one test.
func deadline(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestMain(m *testing.M) {
	mcpserver.Run()
	if os.Getenv(workerAddress) != "" {
		if err := workerProcess(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if postgres != nil {
		postgres.End()
	}
	child.Remove()
	os.Exit(code)
}

func binary(t *testing.T) string {
	t.Helper()
	bin, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// sidecar is a real process on one data directory. It listens on a Unix socket,
// so that clients find it again after a restart.
type sidecar struct {
	t   *testing.T
	dir string
	// database is the URL of the store, "": it is in dir.
	database string
	socket   string
	args     []string
	// opening are arguments of serve and of check: the key, if the directory has one.
	opening []string
	wrap    []string // a command to run it under, for example strace
	program string   // what is started; "": the program under test
	// http and metrics are the addresses of the gateway and the metrics while it runs, if
	// args ask for them.
	http, metrics string

	cmd    *exec.Cmd
	stderr syncBuffer
	done   chan struct{}
}

// syncBuffer is a buffer that one goroutine may read while another writes.
type syncBuffer struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all.String()
}

// Reset drops what was written.
func (b *syncBuffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all.Reset()
}

func newSidecar(t *testing.T, args ...string) *sidecar {
	t.Helper()
	// Socket paths are limited to 108 bytes, which t.TempDir can pass.
	dir, err := os.MkdirTemp("", "pawl-*")
	if err != nil {
		t.Fatal(err)
	}
	s := &sidecar{t: t, dir: filepath.Join(dir, "data"), socket: filepath.Join(dir, "s"), args: args}
	t.Cleanup(func() {
		s.kill()
		os.RemoveAll(dir)
	})
	return s
}

// start returns when the process says that it serves.
func (s *sidecar) start() {
	s.t.Helper()
	line, err := s.tryStart()
	if err != nil {
		s.t.Fatalf("sidecar did not start: %v\n%s", err, s.stderr.String())
	}
	var ready struct {
		Ready bool   `json:"ready"`
		GRPC  string `json:"grpc"`
		HTTP  string `json:"http"`

		Metrics string `json:"metrics"`
	}
	if err := json.Unmarshal(line, &ready); err != nil || !ready.Ready {
		s.t.Fatalf("first line is not the ready line: %q (%v)", line, err)
	}
	s.http, s.metrics = ready.HTTP, ready.Metrics
}

func (s *sidecar) tryStart() ([]byte, error) {
	first, err := s.launch()
	if err != nil {
		return nil, err
	}
	said := <-first
	return said.line, said.err
}

// firstLine is what a process says first, or why it says nothing.
type firstLine struct {
	line []byte
	err  error
}

// launch starts the process; what it says first is sent when it says it.
func (s *sidecar) launch() (<-chan firstLine, error) {
	os.Remove(s.socket)
	program := s.program
	if program == "" {
		program = binary(s.t)
	}
	args := append(append([]string{}, s.wrap...), program)
	args = append(args, s.storedIn("serve", "--data", s.dir, "--listen", "127.0.0.1:0", "--socket", s.socket)...)
	args = append(append(args, s.args...), s.opening...)
	s.cmd = exec.Command(args[0], args[1:]...)
	// A group of its own: a wrapper and the sidecar under it die together.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.stderr.Reset()
	s.cmd.Stderr = &s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := child.Start(s.cmd, syscall.SIGKILL); err != nil {
		return nil, err
	}
	s.done = make(chan struct{})
	first := make(chan firstLine, 1)
	go func(cmd *exec.Cmd, done chan struct{}) {
		line, err := bufio.NewReader(out).ReadBytes('\n')
		first <- firstLine{line, err}
		_ = cmd.Wait()
		close(done)
	}(s.cmd, s.done)
	return first, nil
}

// storedIn are arguments with the store where the sidecar has it.
func (s *sidecar) storedIn(args ...string) []string {
	if s.database == "" {
		return args
	}
	return pgserver.InsteadOfDirectory(args, s.database)
}

// kill sends SIGKILL and waits until the process is gone.
func (s *sidecar) kill() { s.signal(syscall.SIGKILL) }

// stop sends SIGTERM, waits and returns the exit code.
func (s *sidecar) stop() int {
	s.signal(syscall.SIGTERM)
	return s.cmd.ProcessState.ExitCode()
}

func (s *sidecar) signal(sig syscall.Signal) {
	if s.cmd == nil || s.done == nil {
		return
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, sig)
	select {
	case <-s.done:
	case <-time.After(patience):
		s.t.Errorf("the process outlived signal %v by %v", sig, patience)
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// check runs `pawl check` on the stopped sidecar's data.
func (s *sidecar) check(more ...string) {
	s.t.Helper()
	out, err := s.checked(more...)
	if err != nil {
		s.t.Fatalf("pawl check: %v\n%s", err, out)
	}
	s.t.Logf("pawl check: %s", strings.TrimSpace(out))
}

// checked runs it and returns what it says.
func (s *sidecar) checked(more ...string) (string, error) {
	args := append(s.storedIn("check", "--data", s.dir), s.opening...)
	out, err := exec.Command(binary(s.t), append(args, more...)...).CombinedOutput()
	return string(out), err
}

// dial connects to the socket and keeps trying while the process is down.
func (s *sidecar) dial(more ...grpc.DialOption) *grpc.ClientConn {
	s.t.Helper()
	quick := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}
	conn, err := grpc.NewClient("unix:"+s.socket, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
	}, more...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

func (s *sidecar) deliveries() pawlv1.DeliveryServiceClient {
	return pawlv1.NewDeliveryServiceClient(s.dial())
}

func (s *sidecar) runs() pawlv1.RunServiceClient { return pawlv1.NewRunServiceClient(s.dial()) }
