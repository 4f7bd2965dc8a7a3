package router

import (
	"context"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
)

// Peer is another node.
type Peer struct {
	ID string
	// Address is HOST:PORT of its port of peers.
	Address string
	// Key is the SHA-256 of its certificate.
	Key [32]byte
}

// Directory knows which nodes have the partitions.
type Directory interface {
	// Owner returns the other node that owns a partition; false: it has no owner, or this node
	// is the owner.
	Owner(part int32) (Peer, bool)
	// Owners are the other nodes that have any, each once. all: every partition has an owner, this
	// node included.
	Owners() (owners []Peer, all bool)
	// NonEmpty returns the partitions that have rows, by number, on all nodes.
	NonEmpty() []int32
	// Changed is closed when any of that changes.
	Changed() <-chan struct{}
	// Refresh asks again, soon. It is called often.
	Refresh()
}

// Peers reach partitions at other nodes. Errors are those of the remote partition, NOT_OWNER,
// [Unsent], or of the connection: UNAVAILABLE without a reason.
type Peers interface {
	// Call returns the bytes of the answer as they came, [sent.Message].
	Call(ctx context.Context, to Peer, part int32, method string, req any) (any, error)
	// Stream opens a stream; it receives into *[sent.Message]. Its header and trailer have
	// what is for the caller alone.
	Stream(ctx context.Context, to Peer, part int32, method string) (grpc.ClientStream, error)
	// Transport carries requests over HTTP. NOT_OWNER is an answer with [RefusedHeader].
	Transport(to Peer, part int32) http.RoundTripper
}

// Config configures a [Router].
type Config struct {
	Slots     *Slots
	Directory Directory
	// Served refuses a namespace that this node does not serve, because a single partition does
	// not know all names. Default: it serves all.
	Served func(ctx context.Context, namespace string) error
	// Partitions have the namespaces that this node serves, by number. Default: the first one.
	Partitions []Partition
	// Address returns the address of this node for other nodes. Default: none.
	Address func() string
	Peers   Peers
	// Parts returns the partition of a namespace. For an unknown namespace it returns one that
	// refuses the call. Default: the first one.
	Parts func(namespace string) int32
	// Tenant is the tenant that a request to an agent over HTTP names, "" = none. It is given as
	// much of the body as is kept. Default: none.
	Tenant func(r *http.Request, body []byte) string
	// Counts gets the metrics; nil = none.
	Counts Counts
	// OwnerTimeout limits the wait of a call for the partition's owner. Default 10 s.
	OwnerTimeout time.Duration
	// BodyBytes limits the part of a request over HTTP that is kept for a repeat. Default 4
	// MiB.
	BodyBytes int64
}

// Router takes calls to the node that has their partition. Safe for concurrent use.
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
	// RefusedHeader marks an answer over HTTP to a call that was not begun, with a reason.
	RefusedHeader = "Pawl-Refused"
)

// New makes one.
func New(cfg Config) *Router {
	if cfg.OwnerTimeout == 0 {
		cfg.OwnerTimeout = 10 * time.Second
	}
	if cfg.BodyBytes == 0 {
		cfg.BodyBytes = 4 << 20
	}
	if cfg.Parts == nil {
		cfg.Parts = func(string) int32 { return 0 }
	}
	if cfg.Tenant == nil {
		cfg.Tenant = func(*http.Request, []byte) string { return "" }
	}
	if len(cfg.Partitions) == 0 {
		cfg.Partitions = []Partition{{}}
	}
	if cfg.Served == nil {
		cfg.Served = func(context.Context, string) error { return nil }
	}
	if cfg.Address == nil {
		cfg.Address = func() string { return "" }
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
	if m == nil {
		return next(ctx, req)
	}
	if err := r.served(ctx, req); err != nil {
		return nil, err
	}
	switch m.Rule {
	case RetryRemaining:
		return r.wait(ctx, info.FullMethod, req)
	case NodeInfo:
		return r.nodeInfo(ctx, info.FullMethod), nil
	case FanOut:
		return r.fanOut(ctx, info.FullMethod, req)
	}
	return r.call(ctx, info.FullMethod, req)
}

// call makes a unary call at the node that owns its partition at that time.
func (r *Router) call(ctx context.Context, method string, req any) (any, error) {
	return r.callAt(ctx, r.partOf(ctx, req), method, req)
}

// callAt makes a unary call that is about a partition.
func (r *Router) callAt(ctx context.Context, part int32, method string, req any) (resp any, err error) {
	m := methods[method]
	if m.agents { // a message may wait for its task for long
		in, leave := r.lasting.enter(ctx)
		defer leave()
		ctx = in
	}
	t, whole, began := r.newRetrier(ctx, part, method), req, time.Now()
	for t.next() {
		if m.Rule == RetryRemaining {
			req = remaining(whole, time.Since(began))
		}
		if resp, err = r.once(ctx, part, method, req); err != nil {
			t.failed(err, m.retryable(ctx, req))
		}
	}
	if err != nil && m.agents && m.Changes && !m.retryable(ctx, req) && t.cancelledByDrain(err) {
		return nil, lost()
	}
	if err != nil && t.mayHaveExecuted && m.done != "" && reasonOf(err) == m.done {
		return m.NewResponse(), nil
	}
	if err != nil {
		return nil, t.toClientError(err, m.Changes)
	}
	return resp, nil
}

// once makes a call where its partition is believed to be.
func (r *Router) once(ctx context.Context, part int32, method string, req any) (any, error) {
	resp, here, err := r.cfg.Slots.At(part).call(ctx, method, req)
	if here {
		return resp, err
	}
	err = r.elsewhere(ctx, part, method, func(to Peer) (err error) {
		resp, err = r.cfg.Peers.Call(ctx, to, part, method, req)
		return err
	})
	return resp, err
}

// elsewhere makes a call at the node that has its partition.
func (r *Router) elsewhere(ctx context.Context, part int32, method string, call func(to Peer) error) error {
	to, ok := r.cfg.Directory.Owner(part)
	if !ok {
		return NotOwner()
	}
	err := call(to)
	r.forwarded(ctx, method, to, err)
	if reasonOf(err) == apierror.OwnerLost {
		// The lease may have ended, or the handover did not wait for a slow reader. The
		// messages of a stream were sent in order, so that the next one continues after them.
		return &failed{err}
	}
	return err
}

// Local makes a call at a partition of this node; NOT_OWNER: the node does not own it.
func (r *Router) Local(ctx context.Context, part int32, method string, req any) (any, error) {
	resp, here, err := r.cfg.Slots.At(part).call(ctx, method, req)
	if !here {
		return nil, NotOwner()
	}
	return resp, err
}

// LocalStream is Local for a stream.
func (r *Router) LocalStream(part int32, method string, stream grpc.ServerStream) error {
	here, err := r.cfg.Slots.At(part).stream(stream.Context(), method, func(ctx context.Context) grpc.ServerStream { return &within{stream, ctx} })
	if !here {
		return NotOwner()
	}
	return err
}

// LocalHTTP is Local for a request to an agent.
func (r *Router) LocalHTTP(part int32, w http.ResponseWriter, req *http.Request) {
	if !r.cfg.Slots.At(part).serve(req.Context(), w, req.WithContext) {
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
