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

// Options say how to reach a sidecar, and how long to try.
type Options struct {
	// Addr is HOST:PORT or unix:PATH. Default: the environment's PAWL_ADDR, else [DefaultAddr].
	Addr string
	// Namespace of all calls. Default: "default".
	Namespace string
	// Token gives the bearer token of each call; it is asked again for each attempt. Default:
	// the content of the file that PAWL_TOKEN_FILE names, else PAWL_TOKEN, else none.
	Token func(context.Context) (string, error)
	// TLS of the connection. Default: none.
	TLS *tls.Config
	// Timeout bounds a call with its repetitions. Default 30 s.
	Timeout time.Duration
	// RetryFor bounds for how long a call is repeated while that may help. Default 20 s.
	RetryFor time.Duration
	// Dial are further options of the connection.
	Dial []grpc.DialOption
	// Conn is a connection of the caller's own. Addr, Token, TLS and Dial do not count then, and
	// [Client.Close] leaves it open.
	Conn grpc.ClientConnInterface
}

// Client is a connection to a sidecar. It is safe for many goroutines; [Client.Close] ends it.
// Calls that it has no method for are made with the generated stubs over [Client.Conn].
type Client struct {
	o    Options
	conn grpc.ClientConnInterface

	mu      sync.Mutex
	serving *serving
	closed  bool
}

// NewClient checks the options; nothing is connected before the first call.
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

// dial opens a connection; nothing is sent before the first call.
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
		// A dead connection is noticed within 15 s.
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

// RequireTransportSecurity: the sidecar is beside the program, mostly.
func (bearer) RequireTransportSecurity() bool { return false }

// Conn is the connection, for the generated stubs: `pawlv1.NewRunServiceClient(client.Conn())`.
// Their calls are not repeated; [ErrorOf] reads their errors.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Close ends the executions of runs ([Run.Serve]) and the connection. Another process may go on with
// the runs.
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

// Worker is a worker over the client's connection, in its namespace unless the configuration
// says otherwise.
func (c *Client) Worker(cfg WorkerConfig) (*Worker, error) {
	cfg.Conn = c.conn
	if cfg.Namespace == "" {
		cfg.Namespace = c.o.Namespace
	}
	return NewWorker(cfg)
}

// RegisterPack checks and stores a pack, JSON or YAML as the ending of filename says. The same
// bytes again are the same answer. Reasons: PACK_INVALID, PACK_VERSION_TAKEN.
func (c *Client) RegisterPack(ctx context.Context, content []byte, filename string) (*pawlv1.RegisterPackResponse, error) {
	request := &pawlv1.RegisterPackRequest{Namespace: c.o.Namespace, Content: content, Filename: filename}
	return call(ctx, c, pawlv1.NewPackServiceClient(c.conn).RegisterPack, request)
}

// Start begins a run. Its turns are left to workers unless the request's execution says
// otherwise. A request without a request_id gets a fresh one, which its repetitions keep.
// Reasons: PACK_NOT_FOUND, NO_SUCH_ENTRY, BAD_VARIABLES, BAD_LABEL, NO_MODELS.
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

// Run begins a run and executes it here until it ends or waits for something from outside, and
// returns it as it is then. With the request_id of a run that was begun before, perhaps by a
// process that is dead, it goes on with that run. Errors: those of [Client.Start] and [Run.Serve].
func (c *Client) Run(ctx context.Context, request *pawlv1.StartRunRequest, with Serving) (*pawlv1.GetRunResponse, error) {
	request = proto.CloneOf(request)
	request.Execution = pawlv1.Execution_EXECUTION_CALLER
	run, err := c.Start(ctx, request)
	if err != nil {
		return nil, err
	}
	return run.Serve(ctx, with)
}

// Attach is a run by its id. It makes no call: an unknown id is an error of the first one.
func (c *Client) Attach(runID string) *Run { return &Run{c: c, id: runID} }

// call makes a call of which a repeat with the same request does nothing twice, again while
// that may help.
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

// backoff are growing pauses, each between half and all of its bound.
type backoff struct{ bound time.Duration }

func newBackoff() *backoff { return &backoff{bound: 50 * time.Millisecond} }

func (b *backoff) next() time.Duration {
	pause := b.bound/2 + mathrand.N(b.bound/2) //nolint:gosec // A pause needs no secret.
	b.bound = min(2*b.bound, time.Second)
	return pause
}

// serving is the client's own worker, which executes the runs of [Run.Serve].
type serving struct {
	w    *Worker
	stop context.CancelFunc
	// ended is closed when the worker's Run has returned; err is its error then.
	ended chan struct{}
	err   error
}

// ErrClosed is the error of [Run.Serve] and [Client.Run] where the client was closed: before, or in the
// midst of it. The run goes on where it is served next.
var ErrClosed = errors.New("pawl: the client was closed")

// worker is the client's own worker; the first run that is served begins it.
func (c *Client) worker() (*serving, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if c.serving != nil {
		select {
		case <-c.serving.ended: // The sidecar refused it; the next run tries again.
		default:
			return c.serving, nil
		}
	}
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
