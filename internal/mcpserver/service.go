package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
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
	// Execution is who executes the turns of new runs. Default: the sidecar if it has a model, else workers.
	Execution pawlv1.Execution
	// Version is the version that the server tells its clients.
	Version string
	// URL is the public base URL of the HTTP port. Default: the scheme and the host of each request.
	URL string
	// Trusted returns the issuers of accepted JSON web tokens, and the OAuth scopes that give rights. Clients over HTTP
	// read them in the metadata of the resource. nil, or no issuers, means that there is no metadata.
	Trusted func() (issuers, scopes []string)
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
		server, _ := s.server(&session{service: s, metadata: md, namespace: r.PathValue("namespace")})
		return server
	}, &sdk.StreamableHTTPOptions{
		Stateless: true, Logger: quiet,
		// The gateway checks the Host header and the size of the body.
		DisableLocalhostProtection: true, MaxRequestBodyBytes: -1,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if resource, ok := strings.CutPrefix(r.URL.EscapedPath(), metadataPath); ok {
			s.serveMetadata(w, r, resource)
			return
		}
		_, err := s.runs.GetCaller(r.Context(), &pawlv1.GetCallerRequest{Namespace: r.PathValue("namespace")})
		switch status.Code(err) {
		case codes.OK:
			sessions.ServeHTTP(w, r)
		case codes.Unauthenticated:
			w.Header().Set("WWW-Authenticate", s.challenge(r))
			http.Error(w, errorText(err), http.StatusUnauthorized)
		case codes.PermissionDenied:
			http.Error(w, errorText(err), http.StatusForbidden)
		case codes.NotFound, codes.InvalidArgument:
			http.Error(w, errorText(err), http.StatusNotFound)
		default:
			http.Error(w, errorText(err), http.StatusServiceUnavailable)
		}
	})
}

// Serve serves one client over a pair of streams, as newline-delimited JSON, until the client closes the input or ctx
// ends. namespace "" means the caller's own namespace.
func (s *Service) Serve(ctx context.Context, namespace string, in io.ReadCloser, out io.WriteCloser) error {
	if _, err := s.runs.GetCaller(ctx, &pawlv1.GetCallerRequest{Namespace: namespace}); err != nil {
		return err
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	server, offered := s.server(&session{service: s, metadata: md, namespace: namespace})
	if err := offered.update(offered.session.call(ctx)); err != nil {
		return err
	}
	if err := server.Run(ctx, &sdk.IOTransport{Reader: in, Writer: out}); err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("mcp: %w", err)
	}
	return nil
}

// session is what one client of the service may see: over HTTP one request, over streams a connection.
type session struct {
	service   *Service
	metadata  metadata.MD
	namespace string
}

// call returns the context of a call to the sidecar.
func (c *session) call(ctx context.Context) context.Context {
	return metadata.NewOutgoingContext(ctx, c.metadata)
}

// server returns the MCP server of a session, and what keeps its tools equal to the registered packs.
func (s *Service) server(c *session) (*sdk.Server, *offer) {
	capabilities := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}, Prompts: &sdk.PromptCapabilities{ListChanged: true}, Resources: &sdk.ResourceCapabilities{}}
	capabilities.AddExtension(tasksExtension, nil)
	server := sdk.NewServer(&sdk.Implementation{Name: "pawl", Title: "Pawl", Version: s.cfg.Version}, &sdk.ServerOptions{
		Capabilities: capabilities, Instructions: instructions, Logger: quiet, SchemaCache: s.schemas,
		// What a caller sees depends on its rights, so no proxy may give it to another one.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	c.addOperatorTools(server)
	c.addResources(server)
	c.addTasks(server)
	offered := &offer{session: c, server: server}
	server.AddReceivingMiddleware(offered.refresh, checkName, c.asTask)
	return server, offered
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
