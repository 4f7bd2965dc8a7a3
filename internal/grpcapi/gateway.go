package grpcapi

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/grpcapi/decisionlink"
	"github.com/pawl-dev/pawl/internal/grpcapi/gateway"
)

// jsonPort serves the unary methods and StreamTransitions as ProtoJSON. It is a client of the gRPC
// server over an in-process connection, so the same tokens, scopes, limits and errors apply to its
// requests.
type jsonPort struct {
	httpListener
	conn *grpc.ClientConn
}

// newJSONPort builds the port of the JSON gateway with its handlers. It does not bind an address.
func newJSONPort(s *Server) (*jsonPort, error) {
	conn, err := s.Dial()
	if err != nil {
		return nil, err
	}
	p := &jsonPort{conn: conn}
	cfg := gateway.Config{
		Page: s.cfg.Page, PagePath: s.cfg.PagePath, Hosts: s.cfg.HTTPHosts, Origins: s.cfg.HTTPOrigins,
		MaxBody: 2 * int64(s.cfg.MaxMessageBytes),
		Refused: func(ctx context.Context, st *status.Status) { s.edge.metrics.Refused(ctx, methodHTTP, st) },
	}
	if s.cfg.MCP != nil {
		mcp, err := s.cfg.MCP(conn, func() (issuers, scopes []string) { return s.auth.Current.Load().Issuers.Trusted() })
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		cfg.MCP = mcp
	}
	if s.plugin != nil {
		cfg.Plugin, cfg.PluginMatches = s.plugin.HTTP, s.plugin.Matches
	}
	if links := s.linkHandler(conn); links != nil {
		cfg.Links, cfg.LinksPath = links, decisionlink.Path
	}
	handler, err := gateway.New(conn, cfg)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p.httpListener = newHTTPListener(s, "HTTP", handler)
	return p, nil
}

// shutdown waits for running requests until ctx ends.
func (p *jsonPort) shutdown(ctx context.Context) {
	p.httpListener.shutdown(ctx)
	_ = p.conn.Close()
}

func (p *jsonPort) close() error {
	return errors.Join(p.httpListener.close(), p.conn.Close())
}
