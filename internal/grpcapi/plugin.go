package grpcapi

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/codec"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// Plugin is a service of another package that the server serves on its ports.
type Plugin struct {
	// Desc and Impl are the gRPC service and its implementation.
	Desc *grpc.ServiceDesc
	Impl any
	// HTTP serves the requests of the JSON port whose escaped path Matches accepts. The host and the
	// origin of such a request were checked, but not its content type. On a server with a router, HTTP
	// authenticates with [Server.Known] and forwards the request with [Server.ForwardingHandler]. Impl is then
	// not used.
	HTTP    http.Handler
	Matches func(path string) bool
}

// registerPlugin registers the gRPC service of the plugin.
func (s *Server) registerPlugin() error {
	if s.cfg.Plugin == nil {
		return nil
	}
	plugin, err := s.cfg.Plugin(s)
	if err != nil {
		return err
	}
	s.ownServices.board.Add(plugin.Desc, plugin.Impl)
	codec.Register(s.grpc, plugin.Desc, plugin.Impl)
	s.plugin = &plugin
	return nil
}

// Principal returns the authenticated caller of a call.
func (s *Server) Principal(ctx context.Context) runtime.Principal {
	return auth.CallerOf(ctx).Principal
}

// Admit does for an HTTP request what the interceptors do for a gRPC call: it authenticates the caller,
// checks its scopes and applies its limit. The request must be served with the returned context.
func (s *Server) Admit(r *http.Request, method string) (context.Context, error) {
	ctx, p, err := s.admit(r, method)
	s.refused(ctx, method, p, err)
	return ctx, err
}

// refused counts, logs and audits a request that was refused before it became a call.
func (s *Server) refused(ctx context.Context, method string, p *auth.Caller, err error) {
	if err != nil {
		st, _ := apierror.Status(err)
		if p != nil {
			ctx = auth.WithCaller(ctx, p)
		}
		s.edge.metrics.Refused(ctx, method, st)
		s.edge.auditLog.Refused(ctx, method, p, err)
	}
}

// Completed writes the audit line about an admitted HTTP request, with its outcome.
func (s *Server) Completed(ctx context.Context, method string, request any, err error) {
	s.edge.auditLog.Completed(ctx, method, request, err)
}

func (s *Server) admit(r *http.Request, method string) (ctx context.Context, p *auth.Caller, err error) {
	if ctx, p, err = s.identify(r); err != nil {
		return ctx, nil, err
	}
	if err := s.authorize(p, method); err != nil {
		return ctx, p, err
	}
	ctx, err = s.limit.Enter(auth.WithCaller(ctx, p))
	return ctx, p, err
}

// identify authenticates the caller of a request over HTTP.
func (s *Server) identify(r *http.Request) (context.Context, *auth.Caller, error) {
	ctx := auth.WithPeer(r.Context(), r.RemoteAddr)
	md := metadata.NewIncomingContext(ctx, metadata.Pairs(
		"authorization", r.Header.Get("Authorization"), auth.TraceHeader, r.Header.Get("Traceparent")))
	if r.TLS != nil {
		md = peer.NewContext(md, &peer.Peer{AuthInfo: credentials.TLSInfo{State: *r.TLS}})
	}
	p, err := s.auth.Identify(md)
	return ctx, p, err
}

// authorize returns an error if the caller may not call the method now.
func (s *Server) authorize(p *auth.Caller, method string) error {
	if err := s.auth.Authorize(p, method); err != nil {
		return err
	}
	return s.edge.auditLog.Admit(method)
}

// CheckNamespace is the second part of [Server.Admit]. It must be called after the request was read. It
// checks the caller's right to the namespace of the request, and applies the limit of that namespace.
func (s *Server) CheckNamespace(ctx context.Context, method string, request any) error {
	err := auth.CheckNamespace(auth.CallerOf(ctx), request)
	if err == nil {
		err = s.limit.OfSpace(ctx, auth.SpaceOf(ctx, request))
	}
	if err != nil {
		st, _ := apierror.Status(err)
		s.edge.metrics.Refused(ctx, method, st)
		s.edge.auditLog.Completed(ctx, method, request, err)
	}
	return err
}

// AcquireWaitSlot calls [Services.AcquireWaitSlot] of the server's own services.
func (s *Server) AcquireWaitSlot(ctx context.Context, method, namespace string) (stay context.Context, leave func(), err error) {
	return s.ownServices.AcquireWaitSlot(ctx, method, namespace)
}

// Secured reports whether the ports use TLS, and whether callers must send a token or a certificate.
func (s *Server) Secured() (tls, token, certificate bool) {
	return s.keys != nil, s.auth.Current.Load().AsksToken(), s.keys != nil && s.keys.Current.Load().ClientCAs != nil
}

// The methods of Services below make Services the host of a plugin. The caller was already
// authenticated by the server that received the call, perhaps in another process. The context contains
// the caller, see [auth.WithCaller].

// Principal returns the authenticated caller of a call.
func (o *Services) Principal(ctx context.Context) runtime.Principal { return o.s.Principal(ctx) }

// Admit checks that the caller may call a method. The server that received the call has already checked
// the limits.
func (o *Services) Admit(r *http.Request, method string) (context.Context, error) {
	ctx := r.Context()
	p := auth.CallerOf(ctx)
	err := o.s.authorize(p, method)
	o.s.refused(ctx, method, p, err)
	return ctx, err
}

// CheckNamespace calls [Server.CheckNamespace].
func (o *Services) CheckNamespace(ctx context.Context, method string, request any) error {
	return o.s.CheckNamespace(ctx, method, request)
}

// Completed calls [Server.Completed].
func (o *Services) Completed(ctx context.Context, method string, request any, err error) {
	o.s.Completed(ctx, method, request, err)
}

// AcquireWaitSlot counts a call of a namespace that stays open. "" means the caller's own namespace.
// The returned context ends when the services end or when the caller loses its right to the method. Its
// cause tells which. leave ends the call's use of the slot.
func (o *Services) AcquireWaitSlot(ctx context.Context, method, namespace string) (stay context.Context, leave func(), err error) {
	free, err := o.runs.streams.Enter(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	stay, end := o.runs.guardedContext(ctx, method)
	return stay, func() { end(); free() }, nil
}

// Addr calls [Server.Addr].
func (o *Services) Addr() string { return o.s.Addr() }

// HTTPAddr calls [Server.HTTPAddr].
func (o *Services) HTTPAddr() string { return o.s.HTTPAddr() }

// Secured calls [Server.Secured].
func (o *Services) Secured() (tls, token, certificate bool) { return o.s.Secured() }
