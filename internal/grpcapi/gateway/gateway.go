package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	gw "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
)

// healthPath and readyPath answer probes. They need no token and accept any Host, because probes use IP addresses and
// the answers are no secret.
//
// healthPath is for liveness: the status is 200 while the process answers. readyPath is for readiness: the status is
// 200 while grpc.health.v1 reports SERVING, otherwise 503. A sidecar that waits for its database, or for an owner of a
// partition, is alive and not ready: a restart would not help it.
const (
	healthPath = "/healthz"
	readyPath  = "/readyz"
)

// MCPPath is the path at which agents are served over MCP. MCPPath/NAMESPACE is the same for one namespace.
const MCPPath = "/mcp"

// MCPMetadataPath is the path of the OAuth metadata of [MCPPath] (RFC 9728, section 3.1).
const MCPMetadataPath = "/.well-known/oauth-protected-resource" + MCPPath

// Config configures a gateway.
type Config struct {
	// Page is the web page at PagePath and below. nil means that there is no page.
	Page     http.Handler
	PagePath string
	// MCP serves the requests at [MCPPath]. The outgoing metadata of their context identifies the caller, and the path
	// value "namespace" is the namespace that they name. It also serves the GET requests at [MCPMetadataPath]. nil means that agents are not served over MCP.
	MCP http.Handler
	// Hosts and Origins are accepted in addition to loopback names and the gateway's own pages.
	Hosts, Origins []string
	// MaxBody limits the body of a request, in bytes.
	MaxBody int64
	// Plugin serves the requests whose escaped path PluginMatches accepts. nil means that there is no
	// plugin. The host and the origin of such a request are checked, but not the type of its body.
	Plugin        http.Handler
	PluginMatches func(path string) bool
	// Links serves the requests below LinksPath. nil means that there are no links. The host, the origin and the type
	// of the body are not checked. The caller proves its right by the path, which cannot be guessed. A browser sends
	// the form of a link's page with the origin "null", because the page sends no referrer.
	Links     http.Handler
	LinksPath string
	// Refused is called for each request that guard refuses.
	Refused func(context.Context, *status.Status)
}

// New returns the handler of a gateway. The gateway makes its calls on conn.
func New(conn grpc.ClientConnInterface, cfg Config) (http.Handler, error) {
	routes, err := NewRoutes(context.Background(), conn)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+OpenAPIPath, serveOpenAPI)
	mux.HandleFunc("GET "+healthPath, alive)
	events := &eventStream{runs: pawlv1.NewRunServiceClient(conn), other: routes}
	mux.Handle("GET "+allStreamPath, events)
	mux.Handle("GET "+runStreamPath, events)
	if cfg.Page != nil {
		mux.Handle("GET "+cfg.PagePath, cfg.Page)
		mux.Handle("GET "+cfg.PagePath+"/", cfg.Page)
		mux.Handle("GET /{$}", http.RedirectHandler(cfg.PagePath, http.StatusFound))
	}
	if cfg.MCP != nil {
		served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cfg.MCP.ServeHTTP(w, r.WithContext(asCaller(r)))
		})
		mux.Handle(MCPPath, served)
		mux.Handle(MCPPath+"/{namespace}", served)
		mux.Handle("GET "+MCPMetadataPath, served)
		mux.Handle("GET "+MCPMetadataPath+"/{namespace}", served)
	}
	mux.Handle("/", routes)
	return &guard{cfg: cfg, next: mux}, nil
}

// asCaller returns the context of calls that the gateway makes for a request, with the identity of its caller.
func asCaller(r *http.Request) context.Context {
	md := auth.GatewayMetadata(r)
	for _, name := range []string{"authorization", traceHeaderName} {
		if value := r.Header.Get(name); value != "" {
			md.Set(name, value)
		}
	}
	return metadata.NewOutgoingContext(r.Context(), md)
}

// alive answers a liveness probe.
func alive(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"status":"ALIVE"}`))
}

// NewRoutes returns a handler for the HTTP paths that the proto files declare. For each path it calls
// the method of the path on conn.
func NewRoutes(ctx context.Context, conn grpc.ClientConnInterface) (*gw.ServeMux, error) {
	useStrictQuery()
	routes := gw.NewServeMux(
		gw.WithMarshalerOption(gw.MIMEWildcard, &RealJSON{}),
		gw.WithIncomingHeaderMatcher(traceHeader),
		gw.WithOutgoingHeaderMatcher(noHeader),
		gw.WithMetadata(func(_ context.Context, r *http.Request) metadata.MD { return auth.GatewayMetadata(r) }),
		gw.WithErrorHandler(gatewayError),
		gw.WithHealthEndpointAt(healthpb.NewHealthClient(conn), readyPath),
		gw.WithRoutingErrorHandler(routingError),
	)
	return routes, errors.Join(
		pawlv1.RegisterPackServiceHandlerClient(ctx, routes, pawlv1.NewPackServiceClient(conn)),
		pawlv1.RegisterRunServiceHandlerClient(ctx, routes, pawlv1.NewRunServiceClient(conn)),
		pawlv1.RegisterWorkerServiceHandlerClient(ctx, routes, pawlv1.NewWorkerServiceClient(conn)),
		pawlv1.RegisterDeliveryServiceHandlerClient(ctx, routes, pawlv1.NewDeliveryServiceClient(conn)),
		pawlv1.RegisterStoreServiceHandlerClient(ctx, routes, pawlv1.NewStoreServiceClient(conn)),
		pawlv1.RegisterControlServiceHandlerClient(ctx, routes, pawlv1.NewControlServiceClient(conn)),
	)
}

// traceHeaderName is the HTTP header and the metadata key of W3C trace context.
const traceHeaderName = "traceparent"

// traceHeader accepts only the header traceparent of W3C trace context as metadata. The gateway library itself copies
// Authorization.
func traceHeader(name string) (string, bool) {
	return traceHeaderName, strings.EqualFold(name, traceHeaderName)
}

// noHeader accepts no header. So no metadata of an answer becomes an HTTP header.
func noHeader(string) (string, bool) { return "", false }

// gatewayError writes an error as google.rpc.Status. It adds a reason to errors of the gateway itself,
// for example for an unknown path or a body that is not valid JSON of the request.
func gatewayError(_ context.Context, _ *gw.ServeMux, _ gw.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	code := 0
	if custom, ok := errors.AsType[*gw.HTTPStatusError](err); ok {
		code, err = custom.HTTPStatus, custom.Err
	}
	st := status.Convert(err)
	if len(st.Details()) == 0 {
		st = apierror.With(st, &errdetails.ErrorInfo{Domain: apierror.Domain, Reason: gatewayReason(st.Code())})
	}
	if code == 0 {
		code = HTTPStatus(st)
	}
	WriteStatus(w, st, code)
}

// routingError answers a request whose path is unknown, or whose path does not have the HTTP method.
// For the latter case the library would answer 501.
func routingError(ctx context.Context, mux *gw.ServeMux, m gw.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	text := fmt.Sprintf("%s %s is no path of this gateway; GET %s lists them", r.Method, apierror.Clip(r.URL.Path, apierror.MaxFieldBytes), OpenAPIPath)
	switch code {
	case http.StatusMethodNotAllowed:
		err := &gw.HTTPStatusError{HTTPStatus: code, Err: status.Error(codes.Unimplemented, text)}
		gatewayError(ctx, mux, m, w, r, err)
	case http.StatusNotFound:
		gatewayError(ctx, mux, m, w, r, status.Error(codes.NotFound, text))
	default:
		gw.DefaultRoutingErrorHandler(ctx, mux, m, w, r, code)
	}
}

func gatewayReason(code codes.Code) string {
	switch code {
	case codes.InvalidArgument:
		return "MALFORMED_MESSAGE"
	case codes.NotFound:
		return "PATH_NOT_FOUND"
	case codes.Unimplemented:
		return "METHOD_NOT_ALLOWED"
	case codes.Canceled, codes.DeadlineExceeded:
		return apierror.CallEnded
	}
	return "TRANSPORT"
}

// HTTPStatus returns the HTTP status for a gRPC status, by the mapping of google.rpc.
func HTTPStatus(st *status.Status) int { return gw.HTTPStatusFromCode(st.Code()) }

// retryAfter sets the header Retry-After from the RetryInfo of a status, in whole seconds.
func retryAfter(h http.Header, st *status.Status) {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			seconds := (info.GetRetryDelay().AsDuration() + time.Second - 1) / time.Second
			h.Set("Retry-After", strconv.FormatInt(int64(max(1, seconds)), 10))
		}
	}
}
