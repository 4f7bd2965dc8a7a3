package grpcapi

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
	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/grpcapi/fault"
)

// healthPath answers probes: 200 while grpc.health.v1 says SERVING, else 503. It takes
// no token, and any Host, since probes come by address and it tells no secret.
const healthPath = "/healthz"

// gateway serves the unary methods and StreamTransitions as ProtoJSON. It is a
// client of the gRPC server over an in-process connection: the same tokens,
// scopes, limits and errors hold.
type gateway struct {
	web
	conn *grpc.ClientConn
}

func newGateway(s *Server) (*gateway, error) {
	conn, err := s.Dial()
	if err != nil {
		return nil, err
	}
	routes, err := newRoutes(context.Background(), conn)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+openAPIPath, serveOpenAPI)
	events := &eventStream{runs: pawlv1.NewRunServiceClient(conn), other: routes}
	mux.Handle("GET "+allStreamPath, events)
	mux.Handle("GET "+runStreamPath, events)
	if s.cfg.Page != nil {
		mux.Handle("GET "+s.cfg.PagePath, s.cfg.Page)
		mux.Handle("GET "+s.cfg.PagePath+"/", s.cfg.Page)
		mux.Handle("GET /{$}", http.RedirectHandler(s.cfg.PagePath, http.StatusFound))
	}
	mux.Handle("/", routes)
	guarded := &guard{guest: s.guest, tally: s.edge.tally, hosts: s.cfg.HTTPHosts, origins: s.cfg.HTTPOrigins, maxBody: 2 * int64(s.cfg.MaxMessageBytes), next: mux}
	return &gateway{conn: conn, web: newWeb(guarded)}, nil
}

// newRoutes are the paths of the contract, each a call of its method on conn.
func newRoutes(ctx context.Context, conn grpc.ClientConnInterface) (*gw.ServeMux, error) {
	useStrictQuery()
	routes := gw.NewServeMux(
		gw.WithMarshalerOption(gw.MIMEWildcard, &realJSON{}),
		gw.WithIncomingHeaderMatcher(traceHeader),
		gw.WithOutgoingHeaderMatcher(noHeader),
		gw.WithMetadata(func(_ context.Context, r *http.Request) metadata.MD { return door.IdentityOf(r.TLS).Metadata() }),
		gw.WithErrorHandler(gatewayError),
		gw.WithHealthEndpointAt(healthpb.NewHealthClient(conn), healthPath),
		gw.WithRoutingErrorHandler(routingError),
	)
	return routes, errors.Join(
		pawlv1.RegisterPackServiceHandlerClient(ctx, routes, pawlv1.NewPackServiceClient(conn)),
		pawlv1.RegisterRunServiceHandlerClient(ctx, routes, pawlv1.NewRunServiceClient(conn)),
		pawlv1.RegisterWorkerServiceHandlerClient(ctx, routes, pawlv1.NewWorkerServiceClient(conn)),
		pawlv1.RegisterDeliveryServiceHandlerClient(ctx, routes, pawlv1.NewDeliveryServiceClient(conn)),
	)
}

// traceHeader hands W3C trace context on to the call, and nothing else.
func traceHeader(name string) (string, bool) {
	return traceHeaderName, strings.EqualFold(name, traceHeaderName)
}

// noHeader keeps HTTP headers and gRPC metadata apart; Authorization, which the
// gateway library passes on by itself, is all that a call needs.
func noHeader(string) (string, bool) { return "", false }

// gatewayError writes an error as google.rpc.Status. Errors that the gateway
// itself made (no such path, a body that is no JSON of the request) get the
// reason that all others have.
func gatewayError(_ context.Context, _ *gw.ServeMux, _ gw.Marshaler, w http.ResponseWriter, _ *http.Request, err error) {
	code := 0
	if custom, ok := errors.AsType[*gw.HTTPStatusError](err); ok {
		code, err = custom.HTTPStatus, custom.Err
	}
	st := status.Convert(err)
	if len(st.Details()) == 0 {
		st = fault.With(st, &errdetails.ErrorInfo{Domain: fault.Domain, Reason: gatewayReason(st.Code())})
	}
	if code == 0 {
		code = httpStatus(st)
	}
	writeStatus(w, st, code)
}

// routingError answers what no path is for. The library's own form has 501 for a
// method that a path does not take.
func routingError(ctx context.Context, mux *gw.ServeMux, m gw.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	text := fmt.Sprintf("%s %s is no path of this gateway; GET %s lists them", r.Method, fault.Clip(r.URL.Path, fault.MaxFieldBytes), openAPIPath)
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
		return "CALL_ENDED"
	}
	return "TRANSPORT"
}

// httpStatus maps the code as google.rpc does.
func httpStatus(st *status.Status) int { return gw.HTTPStatusFromCode(st.Code()) }

// retryAfter tells HTTP clients what RetryInfo tells others, in whole seconds.
func retryAfter(h http.Header, st *status.Status) {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			seconds := (info.GetRetryDelay().AsDuration() + time.Second - 1) / time.Second
			h.Set("Retry-After", strconv.FormatInt(int64(max(1, seconds)), 10))
		}
	}
}

// shutdown lets requests under way finish until ctx ends.
func (g *gateway) shutdown(ctx context.Context) {
	g.web.shutdown(ctx)
	_ = g.conn.Close()
}

func (g *gateway) close() error { return errors.Join(g.web.close(), g.conn.Close()) }
