package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
)

// localDrain limits how long a local sidecar waits for running calls when it stops.
const localDrain = 10 * time.Second

// Local is a complete sidecar inside this process, with a temporary store. Only this process can reach
// it. It has the same parts as any other sidecar: gRPC, the runtime, synced commits.
type Local struct {
	// Conn is a connection with every scope.
	Conn *grpc.ClientConn
	app  *app
	dir  string
}

// StartLocal starts a local sidecar with the configuration c, but with its own addresses, data
// directory and tokens. If clock is nil, it uses the system's clock. The caller must close the result.
func StartLocal(c config.Config, clock runtime.Clock) (*Local, error) {
	if clock == nil {
		clock = runtime.SystemClock{}
	}
	dir, err := os.MkdirTemp("", "pawl-run-")
	if err != nil {
		return nil, err
	}
	l, err := startLocal(c, clock, dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return l, nil
}

// startLocal starts a sidecar for this process only, on the store in dir: without ports and encryption, and with a
// token that only this process has.
func startLocal(c config.Config, clock runtime.Clock, dir string) (*Local, error) {
	var secret [16]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return nil, err
	}
	token := auth.Token{Principal: "local", Secret: hex.EncodeToString(secret[:]), Scopes: runtime.ScopeAdmin}
	c.EncryptionKeyFile, c.Store = "", dsn.URL{}
	c.Data, c.Listen, c.Socket, c.HTTP, c.Metrics, c.TLSCert, c.TLSKey, c.TLSClientCA, c.Audit, c.AuditKey, c.LinkURL, c.LinkKeysFile = dir, "", "", "", "", "", "", "", "", "", "", ""
	a, err := open(context.Background(), options{config: c, rights: grpcapi.Rights{Tokens: []auth.Token{token}}, clock: clock, log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	l := &Local{app: a, dir: dir}
	if err = a.start(); err != nil {
		return nil, errors.Join(err, l.stop())
	}
	if l.Conn, err = a.server.Dial(grpc.WithPerRPCCredentials(output.Bearer(token.Secret))); err != nil {
		return nil, errors.Join(err, l.stop())
	}
	return l, nil
}

// Close ends the sidecar and deletes its store.
func (l *Local) Close() error {
	return errors.Join(l.Conn.Close(), l.stop(), os.RemoveAll(l.dir))
}

func (l *Local) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), localDrain)
	defer cancel()
	return l.app.stop(ctx)
}
