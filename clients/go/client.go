package pawl

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// DefaultAddr is the address at which a sidecar listens by default.
const DefaultAddr = "127.0.0.1:7291"

// maxAnswerBytes bounds one message from a sidecar.
const maxAnswerBytes = 64 << 20

// Options configure a [Client]: the address of the sidecar, the credentials and the time limits.
// The zero value is usable.
type Options struct {
	// Addr is HOST:PORT or unix:PATH. Default: the environment variable PAWL_ADDR. If it is not set,
	// [DefaultAddr].
	Addr string
	// Namespace of all calls. Default: "default".
	Namespace string
	// Token returns the bearer token for a call. The client calls it before each attempt, from several
	// goroutines. Default: the content of the file that PAWL_TOKEN_FILE names. If this is not set, the
	// value of PAWL_TOKEN. If neither is set, no token is sent.
	Token func(context.Context) (string, error)
	// TLS of the connection. Default: no TLS.
	TLS *tls.Config
	// Timeout bounds a call together with its retries. Default: 30 s.
	Timeout time.Duration
	// RetryFor bounds how long a failed call is retried, measured from its first attempt. Default: 20
	// s.
	RetryFor time.Duration
	// Dial are additional options of the gRPC connection. Default: none.
	Dial []grpc.DialOption
	// Conn is an existing connection. If it is set, Addr, Token, TLS and Dial have no effect, and
	// [Client.Close] does not close it. Default: the client dials Addr.
	Conn grpc.ClientConnInterface
}

// Client calls one sidecar. It registers packs, starts runs and executes them. Safe for concurrent use.
// Call [Client.Close] when the client is no longer needed. For calls that have no method here, use the
// generated stubs over [Client.Conn].
type Client struct {
	o    Options
	conn grpc.ClientConnInterface

	mu      sync.Mutex
	serving *serving
	closed  bool
}

// NewClient returns a client with the given options. The first call makes the connection. NewClient
// returns an error for a negative duration or a malformed address.
func NewClient(o Options) (*Client, error) {
	if o.Timeout < 0 || o.RetryFor < 0 {
		return nil, fmt.Errorf("pawl: Timeout and RetryFor: 0 or more, not %v and %v", o.Timeout, o.RetryFor)
	}
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.RetryFor = cmp.Or(o.RetryFor, 20*time.Second)
	if o.Conn != nil {
		return &Client{o: o, conn: o.Conn}, nil
	}
	conn, err := dial(o)
	if err != nil {
		return nil, err
	}
	return &Client{o: o, conn: conn}, nil
}

// dial returns a connection. It connects when the first call is made.
func dial(o Options) (*grpc.ClientConn, error) {
	o.Addr = cmp.Or(o.Addr, os.Getenv("PAWL_ADDR"), DefaultAddr)
	if o.Token == nil {
		o.Token = tokenOfEnvironment
	}
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = credentials.NewTLS(o.TLS)
	}
	addr := o.Addr
	if !strings.HasPrefix(addr, "unix:") {
		addr = "passthrough:///" + addr
	}
	conn, err := grpc.NewClient(addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(bearer{o.Token}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswerBytes)),
		// A dead connection is detected within 15 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}),
	}, o.Dial...)...)
	if err != nil {
		return nil, fmt.Errorf("pawl: address %q: %w", o.Addr, err)
	}
	return conn, nil
}

// tokenOfEnvironment is the default of [Options.Token].
func tokenOfEnvironment(context.Context) (string, error) {
	file := os.Getenv("PAWL_TOKEN_FILE")
	if file == "" {
		return os.Getenv("PAWL_TOKEN"), nil
	}
	content, err := os.ReadFile(file) //nolint:gosec // The environment names the file.
	if err != nil {
		return "", fmt.Errorf("PAWL_TOKEN_FILE: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// bearer sends the token with each call.
type bearer struct {
	token func(context.Context) (string, error)
}

func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil || token == "" {
		return nil, err
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity returns false, because most sidecars run on the same host as the program and
// serve without TLS.
func (bearer) RequireTransportSecurity() bool { return false }

// Conn returns the connection. It is used with the generated stubs:
// `pawlv1.NewRunServiceClient(client.Conn())`. Calls of the stubs are not retried. [ErrorOf] reads
// their errors.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Close stops the execution of runs ([Run.Serve]) and closes the connection, except [Options.Conn].
// Another process can continue the runs.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	serving := c.serving
	c.mu.Unlock()
	if serving != nil {
		serving.stop()
		<-serving.ended
	}
	if conn, ours := c.conn.(*grpc.ClientConn); ours && c.o.Conn == nil {
		return conn.Close()
	}
	return nil
}

// Worker returns a worker that uses the client's connection. If cfg has no namespace, the worker has
// the client's namespace. The errors are those of [NewWorker].
func (c *Client) Worker(cfg WorkerConfig) (*Worker, error) {
	cfg.Conn = c.conn
	if cfg.Namespace == "" {
		cfg.Namespace = c.o.Namespace
	}
	return NewWorker(cfg)
}

// RegisterPack checks and stores a pack. The extension of filename selects JSON or YAML. The call is
// idempotent: if the same bytes are registered again, the answer is the same. Reasons: PACK_INVALID,
// PACK_VERSION_TAKEN.
func (c *Client) RegisterPack(ctx context.Context, content []byte, filename string) (*pawlv1.RegisterPackResponse, error) {
	request := &pawlv1.RegisterPackRequest{Namespace: c.o.Namespace, Content: content, Filename: filename}
	return call(ctx, c, pawlv1.NewPackServiceClient(c.conn).RegisterPack, request)
}

// Start starts a run and returns immediately. The execution in the request selects who executes the
// turns. The default is EXECUTION_WORKERS. The call is idempotent by the request's request_id. A
// request without a request_id gets a random one, which its retries keep. Reasons: PACK_NOT_FOUND,
// NO_SUCH_ENTRY, BAD_VARIABLES, BAD_LABEL, NO_MODELS.
func (c *Client) Start(ctx context.Context, request *pawlv1.StartRunRequest) (*Run, error) {
	request = proto.CloneOf(request)
	request.Namespace = c.o.Namespace
	if request.GetRequestId() == "" {
		request.RequestId = rand.Text()
	}
	if request.GetExecution() == pawlv1.Execution_EXECUTION_UNSPECIFIED {
		request.Execution = pawlv1.Execution_EXECUTION_WORKERS
	}
	started, err := call(ctx, c, pawlv1.NewRunServiceClient(c.conn).StartRun, request)
	if err != nil {
		return nil, err
	}
	return c.Attach(started.GetRun().GetRunId()), nil
}

// Run starts a run and executes it in this process until it ends or waits for an outside event. Then it
// returns the state of the run. With the request_id of an existing run it continues that run, even
// after the process that started it has died. Errors: the errors of [Client.Start] and [Run.Serve].
func (c *Client) Run(ctx context.Context, request *pawlv1.StartRunRequest, with Serving) (*pawlv1.GetRunResponse, error) {
	request = proto.CloneOf(request)
	request.Execution = pawlv1.Execution_EXECUTION_CALLER
	run, err := c.Start(ctx, request)
	if err != nil {
		return nil, err
	}
	return run.Serve(ctx, with)
}

// Attach returns the run with the given id. It makes no call, so the first call on the run returns the
// error for an unknown id.
func (c *Client) Attach(runID string) *Run { return &Run{c: c, id: runID} }

// call makes an idempotent call. It retries the call as long as [Error.Advice] allows it, within
// Timeout and RetryFor.
func call[Q, A any](ctx context.Context, c *Client, rpc func(context.Context, Q, ...grpc.CallOption) (A, error), request Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	start, backoff := time.Now(), newBackoff()
	for {
		answer, err := rpc(ctx, request)
		if err == nil {
			return answer, nil
		}
		e := ErrorOf(err)
		if e == nil {
			return answer, err
		}
		pause := max(backoff.next(), e.RetryAfter)
		if e.Advice() == GiveUp || ctx.Err() != nil || time.Since(start)+pause > c.o.RetryFor {
			return answer, e
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return answer, e
		}
	}
}

// backoff computes the pauses between attempts. Each pause is between half of a bound and the whole
// bound. The bound doubles from 50 ms to 1 s.
type backoff struct{ bound time.Duration }

func newBackoff() *backoff { return &backoff{bound: 50 * time.Millisecond} }

func (b *backoff) next() time.Duration {
	pause := b.bound/2 + mathrand.N(b.bound/2) //nolint:gosec // A pause needs no secret.
	b.bound = min(2*b.bound, time.Second)
	return pause
}

// serving holds the client's own worker, which executes the runs of [Run.Serve].
type serving struct {
	w    *Worker
	stop context.CancelFunc
	// ended is closed when the worker's Run has returned. err is the error of Run. It is set before
	// ended is closed.
	ended chan struct{}
	err   error
}

// ErrClosed is the error of [Run.Serve] and [Client.Run] if the client is closed before or during the
// call. The run continues when a process serves it again.
var ErrClosed = errors.New("pawl: the client was closed")

// worker returns the client's own worker. If no run has been served yet, or the earlier worker has ended,
// it starts a new one.
func (c *Client) worker() (*serving, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if c.serving != nil {
		select {
		case <-c.serving.ended: // The sidecar refused the worker; this run starts a new one.
		default:
			return c.serving, nil
		}
	}
	// Close does not wait for functions that run. A Grace of 0 would mean the default.
	w, err := c.Worker(WorkerConfig{ID: "client-" + rand.Text(), Grace: time.Nanosecond})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &serving{w: w, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.err = w.Run(ctx)
	}()
	c.serving = s
	return s, nil
}
