//go:build sim

package sim

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
)

// wires are the open transports to one node. They are cut by the simulator, and late as
// the network is.
type wires struct {
	mu   sync.Mutex
	open []*wire
	// late is the longest time that what was written is under way.
	late time.Duration
	// repeat: messages come twice now and then.
	repeat bool
	dice   *rand.Rand
}

var errDown = errors.New("connection refused")

// wire is one transport.
type wire struct {
	net.Conn
	all *wires
}

// Write takes its time; order is kept.
func (w *wire) Write(b []byte) (int, error) {
	if d := w.all.delay(); d > 0 {
		time.Sleep(d)
	}
	return w.Conn.Write(b)
}

// Close ends it.
func (w *wire) Close() error {
	w.all.mu.Lock()
	w.all.open = slices.DeleteFunc(w.all.open, func(other *wire) bool { return other == w })
	w.all.mu.Unlock()
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

// twice makes a call a second time now and then, as one does whose answer was lost.
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
func (ws *wires) cut() {
	ws.mu.Lock()
	all := ws.open
	ws.open = nil
	ws.mu.Unlock()
	for _, w := range all {
		_ = w.Conn.Close()
	}
}

// dial is a client's connection to a node, whichever process it is at the time.
func (n *node) dial() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+n.name,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUnaryInterceptor(n.wires.twice),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}, MinConnectTimeout: time.Second}),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			p := n.process()
			if p == nil {
				return nil, errDown
			}
			conn, err := p.server.Pipe(ctx)
			if err != nil {
				return nil, err
			}
			w := &wire{Conn: conn, all: &n.wires}
			n.wires.mu.Lock()
			defer n.wires.mu.Unlock()
			n.wires.open = append(n.wires.open, w)
			return w, nil
		}))
}
