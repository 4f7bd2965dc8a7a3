package mcpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cache"
	"github.com/pawl-dev/pawl/internal/pack"
)

// DefaultWait is how long a call of an agent waits for the end of the run before it returns a task. It is shorter than
// the 60 s after which clients give up.
const DefaultWait = 45 * time.Second

// keptPacks is how many parsed packs are kept.
const keptPacks = 256

// instructions tell a model how the tools belong together.
const instructions = "Each agent of this sidecar is a tool. A call starts a run and returns its result. If the run takes longer, the result has its " +
	"run_id: call pawl_wait_run with it, and do not call the agent again. If the run asks a question, answer with pawl_send_input."

// Config configures a [Service].
type Config struct {
	// Conn is a connection to the sidecar. The outgoing metadata of a call's context identifies the caller. Required.
	Conn grpc.ClientConnInterface
	// Execution selects the executor of the turns of new runs. Default: the sidecar if it has a model, else workers.
	Execution pawlv1.Execution
	// HasModel reports whether the sidecar has a model now. It is only used if Execution is not set. nil means that it is
	// not known: the first attempt to start a run finds out.
	HasModel func() bool
	// Version is the version that the server tells its clients.
	Version string
	// URL is the public base URL of the HTTP port. Default: the scheme and the host of each request.
	URL string
	// Trusted returns the issuers of accepted JSON web tokens, and the OAuth scopes that give rights. Clients over HTTP
	// read them in the metadata of the resource. nil, or no issuers, means that there is no metadata.
	Trusted func() (issuers, scopes []string)
	// Log gets an error for each panic. Default: no log.
	Log *slog.Logger
	// Refresh is how often a connection over streams reads the registered packs. Default 30 s.
	Refresh time.Duration
	// Wait is how long a call waits for the end of its run, see [DefaultWait]. A client that supports tasks gets a
	// task after TaskWait. Default: DefaultWait and a second.
	Wait, TaskWait time.Duration
}

// quiet is the log of the library. It reports faults of clients, which get them as errors.
var quiet = slog.New(slog.DiscardHandler)

// Service serves agents over MCP. Safe for concurrent use. Use [New].
type Service struct {
	cfg     Config
	runs    pawlv1.RunServiceClient
	packs   pawlv1.PackServiceClient
	held    pawlv1.ControlServiceClient
	schemas *sdk.SchemaCache

	mu sync.Mutex
	// parsed are packs by digest. Guarded by mu.
	parsed *cache.LRU[string, *pack.Pack]
}

// New returns a service.
func New(cfg Config) (*Service, error) {
	if cfg.Conn == nil {
		return nil, errors.New("mcpserver: conn is required")
	}
	if cfg.Log == nil {
		cfg.Log = quiet
	}
	if cfg.Refresh == 0 {
		cfg.Refresh = 30 * time.Second
	}
	if cfg.Wait == 0 {
		cfg.Wait = DefaultWait
	}
	if cfg.TaskWait == 0 {
		cfg.TaskWait = time.Second
	}
	return &Service{
		cfg: cfg, runs: pawlv1.NewRunServiceClient(cfg.Conn), packs: pawlv1.NewPackServiceClient(cfg.Conn), held: pawlv1.NewControlServiceClient(cfg.Conn),
		parsed: cache.New[string, *pack.Pack](keptPacks), schemas: sdk.NewSchemaCache(),
	}, nil
}

// Handler serves streamable HTTP without sessions. The path value "namespace" of a request is the namespace; without
// one it is the caller's own. The outgoing metadata of the request's context identifies the caller. A caller that is
// not authenticated gets the status 401. The handler answers requests at [metadataPath] with the OAuth metadata.
func (s *Service) Handler() http.Handler {
	sessions := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		md, _ := metadata.FromOutgoingContext(r.Context())
		server, _ := s.server(&session{service: s, metadata: md, namespace: r.PathValue("namespace"), request: r.Context()})
		return server
	}, &sdk.StreamableHTTPOptions{
		Stateless: true, Logger: quiet,
		// The gateway checks the Host header and the size of the body, so the library need not.
		DisableLocalhostProtection: true, MaxRequestBodyBytes: -1,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if resource, ok := strings.CutPrefix(r.URL.EscapedPath(), metadataPath); ok {
			s.serveMetadata(w, r, resource)
			return
		}
		_, err := s.runs.GetCaller(r.Context(), &pawlv1.GetCallerRequest{Namespace: r.PathValue("namespace")})
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		if isBatch(r) {
			http.Error(w, "a request has one message: revisions since 2025-06-18 have no batches", http.StatusBadRequest)
			return
		}
		sessions.ServeHTTP(w, r)
	})
}

// refuse answers a request whose caller was refused.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusServiceUnavailable
	switch status.Code(err) {
	case codes.Unauthenticated:
		w.Header().Set("WWW-Authenticate", s.challenge(r))
		code = http.StatusUnauthorized
	case codes.PermissionDenied:
		code = http.StatusForbidden
	case codes.NotFound, codes.InvalidArgument:
		code = http.StatusNotFound
	case codes.ResourceExhausted:
		w.Header().Set("Retry-After", retryAfter(err))
		code = http.StatusTooManyRequests
	}
	http.Error(w, errorText(err), code)
}

// retryAfter returns the number of seconds after which a refused call may be repeated, at least 1.
func retryAfter(err error) string {
	wait := time.Second
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			wait = max(wait, info.GetRetryDelay().AsDuration())
		}
	}
	return strconv.Itoa(int(math.Ceil(wait.Seconds())))
}

// isBatch reports whether the body of a request is a list. It reads only the white space before the list. A list could
// have tens of thousands of calls, which the library would make at once.
func isBatch(r *http.Request) bool {
	body := bufio.NewReader(r.Body)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	for {
		switch c, err := body.ReadByte(); {
		case err != nil:
			return false // the library reads the body again, and answers the error
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			return body.UnreadByte() == nil && c == '['
		}
	}
}

// Serve serves one client over a pair of streams, as newline-delimited JSON, until the client closes the input or ctx
// ends. namespace "" means the caller's own namespace.
func (s *Service) Serve(ctx context.Context, namespace string, in io.ReadCloser, out io.WriteCloser) error {
	if _, err := s.runs.GetCaller(ctx, &pawlv1.GetCallerRequest{Namespace: namespace}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	md, _ := metadata.FromOutgoingContext(ctx)
	server, offered := s.server(&session{service: s, metadata: md, namespace: namespace, request: ctx, connected: true})
	if err := offered.update(offered.session.outgoing(ctx)); err != nil {
		return err
	}
	go offered.follow(ctx)
	if err := server.Run(ctx, &sdk.IOTransport{Reader: in, Writer: out}); err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("mcp: %w", err)
	}
	return nil
}

// session serves one client with the rights of this client. Over HTTP, a session is one request. Over a pair of
// streams, it is the connection.
type session struct {
	service   *Service
	metadata  metadata.MD
	namespace string
	// request ends when the client can no longer get an answer: it has left, or the service ends.
	request context.Context //nolint:containedctx // The library calls the handlers with another context.
	// connected means that the session is a connection, over which the server can send notifications at any time.
	connected bool
}

// outgoing returns the context of a call to the sidecar.
func (c *session) outgoing(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, c.metadata)
}

// server returns the MCP server of a session, and the offer that keeps its tools equal to the registered packs.
func (s *Service) server(c *session) (*sdk.Server, *offer) {
	capabilities := &sdk.ServerCapabilities{
		Tools: &sdk.ToolCapabilities{ListChanged: c.connected}, Prompts: &sdk.PromptCapabilities{ListChanged: c.connected}, Resources: &sdk.ResourceCapabilities{},
	}
	capabilities.AddExtension(tasksExtension, nil)
	server := sdk.NewServer(&sdk.Implementation{Name: "pawl", Title: "Pawl", Version: s.cfg.Version}, &sdk.ServerOptions{
		Capabilities: capabilities, Instructions: instructions, Logger: quiet, SchemaCache: s.schemas,
		// The answers depend on the rights of the caller, so a proxy must not return a cached answer to another caller.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	c.addOperatorTools(server)
	c.addResources(server)
	c.addTasks(server)
	offered := &offer{session: c, server: server}
	server.AddReceivingMiddleware(c.guarded, offered.refresh, checkTask, c.asTask)
	return server, offered
}

// guarded ends the calls of a request with the request, and answers a panic as an error. A request over HTTP gets no
// notifications, so it cannot listen for them. The library calls the handlers in goroutines of its own, in which a panic would end the process.
func (c *session) guarded(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (result sdk.Result, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.request, cancel)()
		defer func() {
			if cause := recover(); cause != nil {
				c.service.cfg.Log.ErrorContext(ctx, "call panicked", "method", method, "error", fmt.Sprintf("%v\n%s", cause, debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}
		}()
		if method == "subscriptions/listen" && !c.connected {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "notifications are sent over streams only, by pawl mcp"}
		}
		return next(ctx, method, req)
	}
}

// errorText returns the error of a call to the sidecar as a text for models and people.
func errorText(err error) string {
	st := status.Convert(err)
	reason := reasonOf(st)
	if reason == "" {
		reason = st.Code().String()
	}
	if strings.HasPrefix(st.Message(), reason) {
		return st.Message()
	}
	return reason + ": " + st.Message()
}

// badArgument returns the error for an argument of a tool.
func badArgument(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

// isRefusal reports whether the sidecar refused a call because of what the caller sent, so that the caller can change it.
func isRefusal(err error) bool {
	return slices.Contains([]codes.Code{codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.FailedPrecondition, codes.PermissionDenied, codes.ResourceExhausted, codes.OutOfRange}, status.Code(err))
}
