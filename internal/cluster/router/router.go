package router

import (
	"context"
	"net/http"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
)

// Peer identifies another node of the cluster.
type Peer struct {
	ID string
	// Address is HOST:PORT at which the node accepts calls of other nodes.
	Address string
	// Key is the SHA-256 of the node's certificate.
	Key [32]byte
}

// Directory knows which node owns each partition.
type Directory interface {
	// Owner returns the other node that owns a partition. It returns false if the partition has no
	// owner or if this node is the owner.
	Owner(part int32) (Peer, bool)
	// Owners returns the other nodes that own partitions, without duplicates. all reports whether every
	// partition has an owner, which may also be this node.
	Owners() (owners []Peer, all bool)
	// Stale reports whether the owners were last read more than a lease ago. Another node may then own
	// each partition.
	Stale() bool
	// NonEmpty returns the numbers of the partitions that have rows, in order, on all nodes.
	NonEmpty() []int32
	// Changed returns a channel that is closed when the owner of a partition changes.
	Changed() <-chan struct{}
	// Refresh makes the directory read the owners soon. It may be called often.
	Refresh()
}

// Peers makes calls at other nodes. The errors are those of the remote partition, NOT_OWNER, [Unsent],
// or an error of the connection, which is UNAVAILABLE without a reason.
type Peers interface {
	// Call makes a unary call at another node. The answer is a codec.Message with the unchanged bytes
	// of the response.
	Call(ctx context.Context, to Peer, part int32, method string, req any) (any, error)
	// Stream opens a stream that receives into *codec.Message. The header and the trailer of the
	// stream contain only metadata for the caller.
	Stream(ctx context.Context, to Peer, part int32, method string) (grpc.ClientStream, error)
	// Transport returns a transport for HTTP requests to a partition of the node. If an answer contains
	// [RefusedHeader], the node has not begun the request.
	Transport(to Peer, part int32) http.RoundTripper
}

// Config configures a [Router].
type Config struct {
	Slots     *Slots
	Directory Directory
	// Served returns an error for a namespace that this node does not serve. The router calls it
	// because a single partition does not know all namespaces. Default: every namespace is served.
	Served func(ctx context.Context, namespace string) error
	// Partitions are the partitions with the namespaces that this node serves, ordered by number.
	// Default: the first partition.
	Partitions []Partition
	// Address returns the address at which other nodes reach this node. Default: none.
	Address func() string
	Peers   Peers
	// Parts returns the number of the partition that contains a namespace. For an unknown namespace it
	// returns a partition that refuses the call. Default: the first partition.
	Parts func(namespace string) int32
	// Tenant returns the A2A tenant that an HTTP request names, or "". body is the beginning of the
	// request's body, at most BodyBytes + 1 bytes. Default: "".
	Tenant func(r *http.Request, body []byte) string
	// Counts receives the metrics. Default: none.
	Counts Counts
	// OwnerTimeout is how long a call waits for an owner of its partition. Default 10 s.
	OwnerTimeout time.Duration
	// BodyBytes limits the part of an HTTP request's body that is kept so that the request can be
	// repeated, in bytes. Default 4 MiB.
	BodyBytes int64
}

// Router sends each call to the node that owns its partition. Safe for concurrent use.
type Router struct {
	cfg Config
	// draining is closed when the server begins to drain. WaitRun calls then return, and new streams are
	// refused. longCalls contains the long calls, which are then ended.
	draining  chan struct{}
	drainOnce sync.Once
	longCalls group
}

// Names of metadata in an answer.
const (
	// OwnerTrailer is the trailer with the address of the node that answered, if it is not the node
	// that was called.
	OwnerTrailer = "pawl-owner"
	// RefusedHeader is the header of an HTTP answer to a request that was not begun. Its value is the
	// reason.
	RefusedHeader = "Pawl-Refused"
)

// New returns a router.
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
	return &Router{cfg: cfg, draining: make(chan struct{})}
}

// Drain prepares the shutdown of the server: streams and calls of agents end, and WaitRun calls return. The
// error is DRAINING, or COMMIT_UNKNOWN for a call that may have taken effect and must not be repeated. Other
// calls continue.
func (r *Router) Drain() {
	r.drainOnce.Do(func() { close(r.draining) })
	r.longCalls.end(draining())
}

func (r *Router) isDraining() bool {
	select {
	case <-r.draining:
		return true
	default:
		return false
	}
}

// Unary routes a unary call. It implements grpcapi.Router.
func (r *Router) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	m := methods[info.FullMethod]
	if m == nil {
		return next(ctx, req)
	}
	if err := r.checkNamespace(ctx, req); err != nil {
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

// call makes a unary call at the partition that the request belongs to.
func (r *Router) call(ctx context.Context, method string, req any) (any, error) {
	return r.callAt(ctx, r.partOf(ctx, req), method, req)
}

// callAt makes a unary call at a partition, and repeats it if the rule of the method allows this.
func (r *Router) callAt(ctx context.Context, part int32, method string, req any) (resp any, err error) {
	m := methods[method]
	if m.agents { // SendMessage may wait long for its task
		in, leave := r.longCalls.enter(ctx)
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
		return nil, newCommitUnknown()
	}
	// A call that is sent twice gets this error if its first attempt took effect (see the map repeated), so the call
	// has succeeded.
	if err != nil && t.mayHaveExecuted && m.done != "" && reasonOf(err) == m.done {
		return m.NewResponse(), nil
	}
	if err != nil {
		return nil, t.toClientError(err, m.Changes)
	}
	return resp, nil
}

// once makes one attempt of a unary call, at the node that owns the partition as far as this node
// knows.
func (r *Router) once(ctx context.Context, part int32, method string, req any) (any, error) {
	resp, here, err := r.cfg.Slots.At(part).call(ctx, method, req)
	if here {
		return resp, err
	}
	err = r.callOwner(ctx, part, method, func(to Peer) (err error) {
		resp, err = r.cfg.Peers.Call(ctx, to, part, method, req)
		return err
	})
	return resp, err
}

// callOwner makes one attempt of a call, with the function call, at the other node that owns the
// partition.
func (r *Router) callOwner(ctx context.Context, part int32, method string, call func(to Peer) error) error {
	to, ok := r.cfg.Directory.Owner(part)
	if !ok {
		return NotOwner()
	}
	err := call(to)
	r.forwarded(ctx, method, to, err)
	if reasonOf(err) == apierror.OwnerLost {
		// The lease of the other node may have ended, or its handover did not wait for a slow reader.
		// The call may be repeated. A stream continues after its last message, because its messages
		// arrived in order.
		return &failed{err}
	}
	return err
}

// Local makes a call at a partition of this node. It returns NOT_OWNER if this node does not own
// the partition.
func (r *Router) Local(ctx context.Context, part int32, method string, req any) (any, error) {
	resp, here, err := r.cfg.Slots.At(part).call(ctx, method, req)
	if !here {
		return nil, NotOwner()
	}
	return resp, err
}

// LocalStream makes a streaming call at a partition of this node. It returns NOT_OWNER if this node
// does not own the partition.
func (r *Router) LocalStream(part int32, method string, stream grpc.ServerStream) error {
	here, err := r.cfg.Slots.At(part).stream(stream.Context(), method, func(ctx context.Context) grpc.ServerStream { return &contextStream{stream, ctx} })
	if !here {
		return NotOwner()
	}
	return err
}

// LocalHTTP serves a request to an agent at a partition of this node. If this node does not own the
// partition, the answer has the header RefusedHeader.
func (r *Router) LocalHTTP(part int32, w http.ResponseWriter, req *http.Request) {
	if !r.cfg.Slots.At(part).serve(req.Context(), w, req.WithContext) {
		w.Header().Set(RefusedHeader, reasonNotOwner)
		w.WriteHeader(http.StatusMisdirectedRequest)
	}
}

// contextStream is a stream with another context.
type contextStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is the stream's
}

func (w *contextStream) Context() context.Context { return w.ctx }
