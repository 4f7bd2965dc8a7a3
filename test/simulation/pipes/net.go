package pipes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/test/bufconn"
)

// Net is one network. Safe for concurrent use.
type Net struct {
	mu    sync.Mutex
	ports map[string]*port
	// names are the names of processes by their keys.
	names map[[32]byte]string
	gates map[string]*Gate
	cut   map[string]bool
	// conns are in the order in which they were opened. A map would be visited in the order of
	// addresses, which differs between runs.
	conns []*conn
}

// current is the network of the simulation that runs.
var current atomic.Pointer[Net]

// New returns an empty network. It replaces an earlier one.
func New() *Net {
	n := &Net{ports: map[string]*port{}, names: map[[32]byte]string{}, gates: map[string]*Gate{}, cut: map[string]bool{}}
	current.Store(n)
	return n
}

// Forget takes the network away at the end of a simulation.
func Forget() { current.Store(nil) }

// Join adds a process with its name, its key and its gate.
func (n *Net) Join(name string, key [32]byte, gate *Gate) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[key], n.gates[name] = name, gate
}

// Cut makes a process unreachable.
func (n *Net) Cut(name string) {
	n.mu.Lock()
	n.cut[name] = true
	n.mu.Unlock()
	n.drop(name)
}

// `Mend` makes a process reachable again after Cut.
func (n *Net) Mend(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.cut, name)
}

// End removes a process.
func (n *Net) End(name string) {
	n.mu.Lock()
	p := n.ports[name]
	n.mu.Unlock()
	if p != nil {
		_ = p.Close()
	}
	n.drop(name)
}

// drop breaks the connections of a process.
func (n *Net) drop(name string) {
	n.mu.Lock()
	var all []*conn
	for _, c := range n.conns {
		if c.from == name || c.to == name {
			all = append(all, c)
		}
	}
	n.mu.Unlock()
	for _, c := range all {
		_ = c.Close()
	}
}

// port is the listener of a process.
type port struct {
	*bufconn.Listener
	net  *Net
	name string
}

// buffer is the number of bytes that the system buffers for a connection.
const buffer = 128 << 10

// Listen opens the port of a process. The address is the name of the process.
func Listen(name string) (net.Listener, error) {
	n := current.Load()
	if n == nil {
		return nil, errRefused
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ports[name] != nil {
		return nil, fmt.Errorf("%s is in use", name)
	}
	p := &port{bufconn.Listen(buffer), n, name}
	n.ports[name] = p
	return p, nil
}

// Addr implements net.Listener.
func (p *port) Addr() net.Addr { return addr(p.name) }

type addr string

func (addr) Network() string  { return "sim" }
func (a addr) String() string { return string(a) }

// Accept implements net.Listener.
func (p *port) Accept() (net.Conn, error) {
	c, err := p.Listener.Accept()
	if err != nil {
		return nil, net.ErrClosed
	}
	return p.net.open(c, p.name, ""), nil
}

// Close implements net.Listener.
func (p *port) Close() error {
	p.net.mu.Lock()
	delete(p.net.ports, p.name)
	p.net.mu.Unlock()
	return p.Listener.Close()
}

var errRefused = errors.New("connection refused")

// connectTime is how long a process tries to connect to a process that it cannot reach.
const connectTime = time.Second

// Dial connects the process with this key to another process.
func Dial(ctx context.Context, key [32]byte, to string) (net.Conn, error) {
	n := current.Load()
	if n == nil {
		return nil, errRefused
	}
	n.mu.Lock()
	from, p := n.names[key], n.ports[to]
	cut := n.cut[from] || n.cut[to]
	n.mu.Unlock()
	if cut {
		select {
		case <-time.After(connectTime):
			return nil, context.DeadlineExceeded
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if p == nil {
		return nil, errRefused
	}
	c, err := p.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	return n.open(c, from, to), nil
}

// conn is one side of a connection. Its process may be stopped.
type conn struct {
	net.Conn
	net      *Net
	from, to string
	gate     *Gate
	over     chan struct{}
	once     sync.Once
}

// open registers one side of a connection.
func (n *Net) open(c net.Conn, from, to string) net.Conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	gate := n.gates[from]
	if gate == nil {
		gate = &Gate{}
	}
	side := &conn{Conn: c, net: n, from: from, to: to, gate: gate, over: make(chan struct{})}
	n.conns = append(n.conns, side)
	return side
}

// Read returns received bytes. It waits while the process is stopped.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.Pass(c.over)
	return n, err
}

// Write sends bytes. It waits while the process is stopped.
func (c *conn) Write(b []byte) (int, error) {
	c.gate.Pass(c.over)
	return c.Conn.Write(b)
}

// Close closes the connection.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.net.mu.Lock()
		c.net.conns = slices.DeleteFunc(c.net.conns, func(other *conn) bool { return other == c })
		c.net.mu.Unlock()
		close(c.over)
	})
	return c.Conn.Close()
}
