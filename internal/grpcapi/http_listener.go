package grpcapi

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/grpcapi/gateway"
)

// httpListener is an HTTP listener of this server.
type httpListener struct {
	server   *http.Server
	listener net.Listener
}

// newHTTPListener returns the listener of a port. port is the name of the port, for example "HTTP". If
// a gRPC client calls the port, the answer contains the address of the gRPC port.
func newHTTPListener(s *Server, port string, handler http.Handler) httpListener {
	handler = &gateway.Signpost{Port: port, GRPC: s.Addr, Socket: s.cfg.Socket, Next: handler}
	server := gateway.NewServer(handler, headerBytes)
	// Without it, net/http writes failed TLS handshakes to standard error, in a form of its own.
	server.ErrorLog = slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelInfo)
	return httpListener{server: server}
}

func (w *httpListener) bind(field, address string, open bool, conf *tls.Config) (err error) {
	w.server.TLSConfig = conf.Clone() // the server changes its configuration, and the ports share conf
	w.listener, err = auth.ListenTCP(field, address, open)
	return err
}

func (w *httpListener) serve() error {
	serve := w.server.Serve
	if w.server.TLSConfig != nil {
		serve = func(ln net.Listener) error { return w.server.ServeTLS(ln, "", "") }
	}
	if err := serve(w.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shutdown waits for running requests until ctx ends.
func (w *httpListener) shutdown(ctx context.Context) { _ = w.server.Shutdown(ctx) }

func (w *httpListener) close() error {
	err := w.server.Close()
	if w.listener != nil {
		_ = w.listener.Close()
	}
	return err
}
