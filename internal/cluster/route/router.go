package route

import (
	"context"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Peer is another node.
type Peer struct {
	ID string
	// Address is HOST:PORT of its port of peers.
	Address string
	// Key is the SHA-256 of its certificate.
	Key [32]byte
}

// Directory knows which node has the store.
type Directory interface {
	// Owner is the node that has it; false: nobody, or this node.
	Owner() (Peer, bool)
	// Changed is closed when that changes.
	Changed() <-chan struct{}
	// Refresh asks again, soon. It is called often.
	Refresh()
}

// Peers reach other nodes. Their errors are those of the house there, NOT_OWNER, [Unsent], or of
// the connection: UNAVAILABLE without a reason.
type Peers interface {
	// Call returns the bytes of the answer as they came, [sent.Message].
	Call(ctx context.Context, to Peer, method string, req any) (any, error)
	// Stream opens a stream; it receives into *[sent.Message]. Its header and trailer have
	// what is for the caller alone.
	Stream(ctx context.Context, to Peer, method string) (grpc.ClientStream, error)
	// Transport carries requests over HTTP. NOT_OWNER is an answer with [RefusedHeader].
	Transport(to Peer) http.RoundTripper
}

// Config is what a [Router] is made of.
type Config struct {
	Seat      *Seat
	Directory Directory
	Peers     Peers
	// Counts is nil where nobody counts.
	Counts Counts
	// Patience is how long a call waits for a node that has the store. Default 10 s.
	Patience time.Duration
	// BodyBytes bounds what is kept of a request over HTTP, to send it once more. Default 4 MiB.
	BodyBytes int64
}

// Router takes calls to the node that has the store. Safe for concurrent use.
type Router struct {
	cfg Config
	// drains is closed when what waits is to end instead of going elsewhere; lasting are the
	// calls that this ends.
	drains    chan struct{}
	drainOnce sync.Once
	lasting   group
}

// Words of the answer of another node.
const (
	// OwnerTrailer names the node that has answered, where it was another one.
	OwnerTrailer = "pawl-owner"
	// RefusedHeader says of an answer over HTTP that the call was not begun, by a reason.
	RefusedHeader = "Pawl-Refused"
)

// New makes one.
func New(cfg Config) *Router {
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	if cfg.BodyBytes == 0 {
		cfg.BodyBytes = 4 << 20
	}
	if cfg.Counts == nil {
		cfg.Counts = uncounted{}
	}
	return &Router{cfg: cfg, drains: make(chan struct{})}
}

// Drain ends what lasts, since the server does: streams with DRAINING. Calls go on.
func (r *Router) Drain() {
	r.drainOnce.Do(func() { close(r.drains) })
	r.lasting.end(draining())
}

func (r *Router) isDraining() bool {
	select {
	case <-r.drains:
		return true
	default:
		return false
	}
}

// Unary implements the edge's router.
func (r *Router) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	m := methods[info.FullMethod]
	switch {
	case m == nil || m.Rule == Here:
		return next(ctx, req)
	case m.Rule == Waits:
		return r.wait(ctx, info.FullMethod, req)
	}
	return r.call(ctx, info.FullMethod, req)
}

// call makes a unary call at the node that has the store, whichever that is by then.
func (r *Router) call(ctx context.Context, method string, req any) (resp any, err error) {
	m := methods[method]
	t := r.try(ctx, method)
	for t.next() {
		if resp, err = r.once(ctx, method, req); err != nil {
			t.failed(err, m.again(ctx, req))
		}
	}
	if err != nil && t.unsure && m.done != "" && reasonOf(err) == m.done {
		return m.NewResponse(), nil
	}
	if err != nil {
		return nil, t.told(err, m.Changes)
	}
	return resp, nil
}

// once makes a call where the store is believed to be.
func (r *Router) once(ctx context.Context, method string, req any) (any, error) {
	resp, here, err := r.cfg.Seat.call(ctx, method, req)
	if here {
		return resp, err
	}
	err = r.elsewhere(ctx, method, func(to Peer) (err error) {
		resp, err = r.cfg.Peers.Call(ctx, to, method, req)
		return err
	})
	return resp, err
}

// elsewhere makes a call at the node that has the store.
func (r *Router) elsewhere(ctx context.Context, method string, call func(to Peer) error) error {
	to, ok := r.cfg.Directory.Owner()
	if !ok {
		return NotOwner()
	}
	err := call(to)
	r.forwarded(ctx, method, to, err)
	return err
}

// Local makes a call at the house of this node; NOT_OWNER: it has none.
func (r *Router) Local(ctx context.Context, method string, req any) (any, error) {
	resp, here, err := r.cfg.Seat.call(ctx, method, req)
	if !here {
		return nil, NotOwner()
	}
	return resp, err
}

// LocalStream is Local for a stream.
func (r *Router) LocalStream(method string, stream grpc.ServerStream) error {
	here, err := r.cfg.Seat.stream(stream.Context(), method, func(ctx context.Context) grpc.ServerStream { return &within{stream, ctx} })
	if !here {
		return NotOwner()
	}
	return err
}

// LocalHTTP is Local for a request to an agent.
func (r *Router) LocalHTTP(w http.ResponseWriter, req *http.Request) {
	if !r.cfg.Seat.serve(req.Context(), w, req.WithContext) {
		w.Header().Set(RefusedHeader, reasonNotOwner)
		w.WriteHeader(http.StatusMisdirectedRequest)
	}
}

// within is a stream in another context.
type within struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's
}

func (w *within) Context() context.Context { return w.ctx }
