package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-dev/pawl/test/testkit/child"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

// patience bounds every wait of these tests; none of them takes near as long.
const patience = 90 * time.Second

// buildOnce builds the program under test, unless PAWL_SIDECAR names one.
var buildOnce = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("PAWL_SIDECAR"); bin != "" {
		return bin, nil
	}
	return child.Build("cmd/sidecar")
})

func TestMain(m *testing.M) {
	code := m.Run()
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

// node is one sidecar of the cluster. Clients find it at its socket, other nodes at its relay,
// whichever process it is.
type node struct {
	t      *testing.T
	name   string
	dir    string
	socket string
	args   []string
	// program is what is started; "": the program under test. env is its environment and user its user,
	// if not the test's.
	program string
	env     []string
	user    *syscall.Credential
	// database are the ways to the two servers, peers the one of other nodes to this one.
	database [2]*relay.Relay
	peers    *relay.Relay

	cmd *exec.Cmd
	// broken is called when it ended by itself.
	broken context.CancelFunc
	// done is closed when the process has ended; expected: by the test.
	done     chan struct{}
	expected *atomic.Bool
	// since is when it may be asked for what it does, in nanoseconds of [time.Now]; 0: it may not.
	since atomic.Int64
}

// newNode prepares a node: its relays, and its arguments but for the store's.
func newNode(t *testing.T, name string, args ...string) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-*") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, name: name, dir: dir, socket: filepath.Join(dir, "s"), args: args, broken: func() {}}
	t.Cleanup(func() {
		n.end(syscall.SIGKILL)
		if t.Failed() {
			t.Logf("node %s said:\n%s", name, n.outputTail())
		}
		_ = os.RemoveAll(dir)
	})
	return n
}

// joinCluster makes it a node of several.
func (n *node) joinCluster() {
	n.t.Helper()
	listen := fmt.Sprintf("127.0.0.1:%d", quietPort(n.t))
	n.peers = relay.Start(n.t, listen)
	n.args = append(n.args, "--peer-listen", listen, "--peer-address", n.peers.Addr())
}

// lastPort is where [quietPort] goes on.
var lastPort atomic.Int64

// quietPort is a port that stays the node's while it is down: no client's connection gets one
// so low.
func quietPort(t *testing.T) int64 {
	t.Helper()
	lastPort.CompareAndSwap(0, 20000+int64(os.Getpid()%100)*100)
	for range 100 {
		port := lastPort.Add(1)
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// start returns when the node says that it serves.
func (n *node) start() {
	n.t.Helper()
	_ = os.Remove(n.socket)
	program := n.program
	if program == "" {
		program = binary(n.t)
	}
	n.cmd = exec.Command(program, append([]string{"serve", "--listen", "127.0.0.1:0", "--socket", n.socket}, n.args...)...)
	n.cmd.Env = n.env
	if n.user != nil {
		n.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: n.user}
	}
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	n.cmd.Stderr = log
	out, err := n.cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := child.Start(n.cmd, syscall.SIGKILL); err != nil {
		n.t.Fatal(err)
	}
	n.done, n.expected = make(chan struct{}), &atomic.Bool{}
	first := make(chan []byte, 1)
	go n.watch(n.cmd, bufio.NewReader(out), first, n.done, n.expected)
	var ready struct{ Ready bool }
	select {
	case line := <-first:
		if err := json.Unmarshal(line, &ready); err != nil || !ready.Ready {
			n.t.Fatalf("node %s: the first line is %q\n%s", n.name, line, n.outputTail())
		}
	case <-time.After(patience):
		n.t.Fatalf("node %s does not serve after %v\n%s", n.name, patience, n.outputTail())
	}
	n.accountable()
}

// watch reports the first line, and whether the process ended without a request.
func (n *node) watch(cmd *exec.Cmd, out *bufio.Reader, first chan<- []byte, done chan<- struct{}, expected *atomic.Bool) {
	line, _ := out.ReadBytes('\n') // none: it ended
	first <- line
	err := cmd.Wait()
	if !expected.Load() {
		n.t.Errorf("node %s ended by itself: %v", n.name, err)
		n.broken()
	}
	close(done)
}

// end sends a signal and waits until the process is gone.
func (n *node) end(sig syscall.Signal) {
	if n.cmd == nil {
		return
	}
	n.excuse()
	n.expected.Store(true)
	_ = n.cmd.Process.Signal(sig)
	select {
	case <-n.done:
	case <-time.After(patience):
		n.t.Errorf("node %s outlived signal %v", n.name, sig)
		_ = n.cmd.Process.Kill()
		<-n.done
	}
}

func (n *node) signal(sig syscall.Signal) { _ = n.cmd.Process.Signal(sig) }

// excuse means that from now on the node need not serve, until it is accountable again.
func (n *node) excuse()      { n.since.Store(0) }
func (n *node) accountable() { n.since.Store(time.Now().UnixNano()) }

// outputTail is the end of what all its processes said, or the beginning of a panic.
func (n *node) outputTail() string {
	raw, _ := os.ReadFile(filepath.Join(n.dir, "log")) // none: it said nothing
	for _, word := range []string{"panic: ", "fatal error: "} {
		if at := bytes.Index(raw, []byte(word)); at >= 0 {
			return string(raw[at:min(len(raw), at+16<<10)])
		}
	}
	return string(raw[max(0, len(raw)-32<<10):])
}

// saidIn is what it said in a time.
func (n *node) saidIn(from, to time.Time) string {
	raw, _ := os.ReadFile(filepath.Join(n.dir, "log")) // none: it said nothing
	var all strings.Builder
	for line := range strings.Lines(string(raw)) {
		word, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
		if at, err := time.Parse(time.RFC3339Nano, word); err == nil && at.After(from) && at.Before(to) {
			all.WriteString(line)
		}
	}
	return all.String()
}

// silent: a password is in no log.
func (n *node) silent() {
	n.t.Helper()
	raw, _ := os.ReadFile(filepath.Join(n.dir, "log"))
	if strings.Contains(string(raw), pgserver.Password) {
		n.t.Errorf("the password is in the log of %s", n.name)
	}
}

// dial connects to the node's socket, and keeps trying while it is down.
func (n *node) dial() *grpc.ClientConn {
	n.t.Helper()
	quick := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}
	conn, err := grpc.NewClient("unix:"+n.socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return conn
}
