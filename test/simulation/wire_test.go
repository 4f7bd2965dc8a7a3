//go:build sim

package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/grpcapi"
)

// wires are the open connections to one node. The simulator cuts them and delays their data.
type wires struct {
	mu   sync.Mutex
	open []*wire
	// late is the longest delay of written data.
	late time.Duration
	// repeat means that calls are sometimes sent twice.
	repeat bool
	dice   *rand.Rand
}

var errDown = errors.New("connection refused")

// wire is one transport.
type wire struct {
	net.Conn
	all *wires
	// to is the process of a cluster at the other end. nil means that the node is a single process.
	to   *life
	over chan struct{}
	once sync.Once
}

// Write delays the data. The data stays in order.
func (w *wire) Write(b []byte) (int, error) {
	if d := w.all.delay(); d > 0 {
		time.Sleep(d)
	}
	w.pass()
	return w.Conn.Write(b)
}

// Read returns what the process has sent. It waits while the process is stopped.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	w.pass()
	return n, err
}

// pass waits while the process is stopped.
func (w *wire) pass() {
	if w.to != nil {
		w.to.gate.Pass(w.over)
	}
}

// Close closes the transport.
func (w *wire) Close() error {
	w.all.mu.Lock()
	w.all.open = slices.DeleteFunc(w.all.open, func(other *wire) bool { return other == w })
	w.all.mu.Unlock()
	w.once.Do(func() { close(w.over) })
	return w.Conn.Close()
}

func (ws *wires) delay() time.Duration {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.late == 0 || ws.dice.IntN(4) > 0 {
		return 0
	}
	return time.Duration(ws.dice.Int64N(int64(ws.late)))
}

// twice sometimes makes a call a second time, like a client whose answer was lost.
func (ws *wires) twice(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ws.mu.Lock()
	again := ws.repeat && ws.dice.IntN(6) == 0
	ws.mu.Unlock()
	if message, ok := reply.(proto.Message); ok && again {
		_ = invoke(ctx, method, req, message.ProtoReflect().New().Interface(), conn, opts...)
	}
	return invoke(ctx, method, req, reply, conn, opts...)
}

// cut breaks all transports.
func (ws *wires) cut() { ws.cutOf(nil) }

// cutOf breaks the transports to one process of a cluster. nil means all transports.
func (ws *wires) cutOf(to *life) {
	ws.mu.Lock()
	var all, rest []*wire
	for _, w := range ws.open {
		if to == nil || w.to == to {
			all = append(all, w)
		} else {
			rest = append(rest, w)
		}
	}
	ws.open = rest
	ws.mu.Unlock()
	for _, w := range all {
		w.once.Do(func() { close(w.over) })
		_ = w.Conn.Close()
	}
}

// dial returns a client's connection to a node. It leads to the present process of the node.
func (n *node) dial() (*grpc.ClientConn, error) { return n.dialTo(nil) }

// dialTo returns a connection to one member of a cluster. nil means any member.
func (n *node) dialTo(m *member) (*grpc.ClientConn, error) {
	var interceptors []grpc.UnaryClientInterceptor
	if m == nil {
		interceptors = append(interceptors, n.wires.twice)
	}
	if n.cluster != nil {
		interceptors = append(interceptors, n.owns)
	}
	var options []grpc.DialOption
	if n.wards() != nil {
		options = append(options, grpc.WithPerRPCCredentials(n.token()))
	}
	return grpc.NewClient("passthrough:///"+n.name, append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithChainUnaryInterceptor(interceptors...),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: time.Second}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			server, to := n.server(m)
			if server == nil {
				return nil, errDown
			}
			conn, err := server.Pipe(ctx)
			if err != nil {
				return nil, err
			}
			w := &wire{Conn: conn, all: n.wires, to: to, over: make(chan struct{})}
			n.wires.mu.Lock()
			defer n.wires.mu.Unlock()
			n.wires.open = append(n.wires.open, w)
			return w, nil
		}))...)
}

// server returns the server that answers the callers of a node now, or nil if there is none.
func (n *node) server(m *member) (*grpcapi.Server, *life) {
	if n.cluster != nil {
		return n.cluster.server(m)
	}
	if p := n.process(); p != nil {
		return p.server, nil
	}
	return nil, nil
}
