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

// healthPath answers probes: 200 while grpc.health.v1 says SERVING, otherwise 503. It needs no token and
// accepts any Host, because probes use addresses and the answer is no secret.
const healthPath = "/healthz"

// Config configures a gateway.
type Config struct {
	// Page is served at PagePath and below; nil means no page.
	Page     http.Handler
	PagePath string
	// Hosts and Origins are accepted besides loopback names and the gateway's own pages.
	Hosts, Origins []string
	// MaxBody limits the body of a request, in bytes.
	MaxBody int64
	// Plugin serves the requests whose escaped path PluginMatches accepts; nil means no plugin. Host
	// and origin of the request are checked, the type of its body is not.
	Plugin        http.Handler
	PluginMatches func(path string) bool
	// Links serves the requests below LinksPath; nil means no links. Host, origin and the type of the
	// body are not checked: the unguessable path proves the caller, and a browser sends
	// the form of a page without referrer with the origin null.
	Links     http.Handler
	LinksPath string
	// Refused is called for each request that is refused before it becomes a call.
	Refused func(context.Context, *status.Status)
}

// New returns the handler of a gateway that makes its calls on conn.
func New(conn grpc.ClientConnInterface, cfg Config) (http.Handler, error) {
	routes, err := NewRoutes(context.Background(), conn)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+OpenAPIPath, serveOpenAPI)
	events := &eventStream{runs: pawlv1.NewRunServiceClient(conn), other: routes}
	mux.Handle("GET "+allStreamPath, events)
	mux.Handle("GET "+runStreamPath, events)
	if cfg.Page != nil {
		mux.Handle("GET "+cfg.PagePath, cfg.Page)
		mux.Handle("GET "+cfg.PagePath+"/", cfg.Page)
		mux.Handle("GET /{$}", http.RedirectHandler(cfg.PagePath, http.StatusFound))
	}
	mux.Handle("/", routes)
	return &guard{cfg: cfg, next: mux}, nil
}

// NewRoutes returns the HTTP paths of the proto files. Each of them calls its method on conn.
func NewRoutes(ctx context.Context, conn grpc.ClientConnInterface) (*gw.ServeMux, error) {
	useStrictQuery()
	routes := gw.NewServeMux(
		gw.WithMarshalerOption(gw.MIMEWildcard, &RealJSON{}),
		gw.WithIncomingHeaderMatcher(traceHeader),
		gw.WithOutgoingHeaderMatcher(noHeader),
		gw.WithMetadata(func(_ context.Context, r *http.Request) metadata.MD { return auth.GatewayMetadata(r) }),
		gw.WithErrorHandler(gatewayError),
		gw.WithHealthEndpointAt(healthpb.NewHealthClient(conn), healthPath),
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

// traceHeader passes on only the headers of W3C trace context.
func traceHeader(name string) (string, bool) {
	return traceHeaderName, strings.EqualFold(name, traceHeaderName)
}

// noHeader passes no HTTP header as gRPC metadata, and no metadata as header. A call only needs
// Authorization, which the gateway library passes by itself.
func noHeader(string) (string, bool) { return "", false }

// gatewayError writes an error as google.rpc.Status. Errors of the gateway itself, such as an unknown path
// or a body that is not the request's JSON, get a reason too.
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

// routingError answers a request with an unknown path, or with a method that the path does not have. The
// library would answer the latter with 501.
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

// retryAfter sets the header Retry-After from RetryInfo, in whole seconds.
func retryAfter(h http.Header, st *status.Status) {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			seconds := (info.GetRetryDelay().AsDuration() + time.Second - 1) / time.Second
			h.Set("Retry-After", strconv.FormatInt(int64(max(1, seconds)), 10))
		}
	}
}
