package grpcapi

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/pawl-dev/pawl/internal/grpcapi/door"
	"github.com/pawl-dev/pawl/internal/grpcapi/envelope"
	"github.com/pawl-dev/pawl/internal/grpcapi/fault"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// Guest is a service of another package on the same ports.
type Guest struct {
	// Desc and Impl are the gRPC service.
	Desc *grpc.ServiceDesc
	Impl any
	// HTTP serves the requests of the JSON port whose escaped path Takes is true for.
	// Host and origin were checked, the type of the body was not.
	HTTP  http.Handler
	Takes func(path string) bool
}

// admitGuest registers the guest's service.
func (s *Server) admitGuest() error {
	if s.cfg.Guest == nil {
		return nil
	}
	guest, err := s.cfg.Guest(s)
	if err != nil {
		return err
	}
	envelope.Register(s.grpc, guest.Desc, guest.Impl)
	s.guest = &guest
	return nil
}

// Principal is the caller of a call that was admitted.
func (s *Server) Principal(ctx context.Context) runtime.Principal {
	return door.CallerOf(ctx).Principal
}

// Admit is for a request over HTTP what the interceptors are for one over gRPC.
// The context is the one to serve the request with.
func (s *Server) Admit(r *http.Request, method string) (context.Context, error) {
	ctx, p, err := s.admit(r, method)
	if err != nil {
		st, _ := fault.Status(err)
		s.edge.tally.refused(r.Context(), method, st)
		s.edge.trail.Refused(ctx, method, p, err)
	}
	return ctx, err
}

// Settled is told what came of a request that was admitted.
func (s *Server) Settled(ctx context.Context, method string, request any, err error) {
	s.edge.trail.Settled(ctx, method, request, err)
}

func (s *Server) admit(r *http.Request, method string) (ctx context.Context, p *door.Caller, err error) {
	ctx = door.WithPeer(r.Context(), r.RemoteAddr)
	md := metadata.NewIncomingContext(ctx, metadata.Pairs(
		"authorization", r.Header.Get("Authorization"), traceHeaderName, r.Header.Get("Traceparent")))
	if r.TLS != nil {
		md = peer.NewContext(md, &peer.Peer{AuthInfo: credentials.TLSInfo{State: *r.TLS}})
	}
	if p, err = s.auth.Identify(md); err != nil {
		return ctx, nil, err
	}
	if err := s.auth.Authorize(p, method); err != nil {
		return ctx, p, err
	}
	if err := s.edge.trail.Admit(method); err != nil {
		return ctx, p, err
	}
	ctx, err = s.limit.Enter(door.WithCaller(ctx, p))
	return ctx, p, err
}

// Within is the rest of [Server.Admit], once it is known what is asked for: whether the
// namespace is one of the caller's, and whether it is too much for that.
func (s *Server) Within(ctx context.Context, method string, request any) error {
	err := door.Within(door.CallerOf(ctx), request)
	if err == nil {
		err = s.limit.OfSpace(ctx, door.SpaceOf(ctx, request))
	}
	if err != nil {
		st, _ := fault.Status(err)
		s.edge.tally.refused(ctx, method, st)
		s.edge.trail.Settled(ctx, method, request, err)
	}
	return err
}

// Stay takes a place among the calls of a namespace that stay open, "" being its caller's own. Its context ends when the
// server drains or the caller loses its right to the method; the cause says
// which. leave gives the place back.
func (s *Server) Stay(ctx context.Context, method, namespace string) (stay context.Context, leave func(), err error) {
	free, err := s.runs.streams.Enter(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	stay, end := s.runs.guarded(ctx, method)
	return stay, func() { end(); free() }, nil
}

// Secured says whether the addresses speak TLS, and whether callers must show a
// token or a certificate.
func (s *Server) Secured() (tls, token, certificate bool) {
	return s.keys != nil, s.auth.Current.Load().AsksToken(), s.keys != nil && s.keys.Current.Load().ClientCAs != nil
}
