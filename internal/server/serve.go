package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/services"
)

// Ready is the line that a sidecar prints when it is ready to serve.
type Ready struct {
	Ready bool `json:"ready"`
	// GRPC is the bound HOST:PORT.
	GRPC string `json:"grpc"`
	// Socket is the path of the Unix socket. It is absent if there is none.
	Socket string `json:"socket,omitempty"`
	// HTTP is the bound HOST:PORT of the gateway. It is absent if there is none.
	HTTP string `json:"http,omitempty"`
	// Metrics is the bound HOST:PORT of the metrics. It is absent if there is none.
	Metrics string `json:"metrics,omitempty"`
	// Peer is HOST:PORT at which other sidecars reach this sidecar. It is absent outside a cluster.
	Peer string `json:"peer,omitempty"`
	// PID is the process id.
	PID int `json:"pid"`
	// Packs are the packs of the configured files, in order, as id@version.
	Packs []string `json:"packs"`
}

// Serve runs a sidecar until ctx ends, and then drains it. It prints the [Ready] line on stdout and
// logs to stderr. On SIGHUP it reads the reloadable files again. SIGHUP never ends the process. The
// error is the reason why the sidecar could not serve, or why it ended: an error of a listener, or a
// commit with an unknown outcome.
func Serve(ctx context.Context, c config.Config, stdout, stderr io.Writer) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	opts, err := serveOptions(c, stderr)
	if err != nil {
		return err
	}
	a, err := open(ctx, opts)
	if err != nil && errors.Is(err, ctx.Err()) {
		// The sidecar was stopped while it waited for a database. This is no error.
		return nil
	}
	if err != nil {
		return err
	}
	names, err := a.begin(ctx)
	go a.reloads(ctx, hangups)
	if err == nil {
		err = a.announce(ctx, names, stdout)
	}
	switch {
	case ctx.Err() != nil:
		// The sidecar was stopped before it was ready. An interrupted start is no error.
		err = nil
	case err == nil:
		go settle(ctx)
		err = a.wait(ctx)
	}
	opts.log.Info("draining", "timeout", c.DrainTimeout)
	drain, cancel := context.WithTimeout(context.Background(), c.DrainTimeout)
	defer cancel()
	return errors.Join(err, a.stop(drain))
}

// begin starts to serve. It registers the packs and stores the schedules of the configuration. It
// returns the names of the packs.
func (a *app) begin(ctx context.Context) (names []string, err error) {
	packs := a.opts.config.Packs
	if a.cluster != nil {
		if err = a.start(); err == nil {
			err = a.serving(ctx)
		}
		if err != nil {
			return nil, err
		}
		names, err = a.offerPacks(ctx, packs)
		a.cluster.offered.Store(err == nil)
		return names, err
	}
	t := a.partitions.own()
	if names, err = t.registerPacks(ctx, packs); err == nil {
		err = t.agree(ctx)
	}
	return names, errors.Join(err, a.start())
}

func serveOptions(c config.Config, stderr io.Writer) (options, error) {
	opts := options{config: c, clock: services.SystemClock{}, log: newLog(c, stderr)}
	var err error
	opts.rights, err = readRights(c)
	if err == nil && c.TLSClientCA != "" && c.TokensFile == "" && c.OIDCFile == "" && c.CertificatesFile == "" {
		opts.log.Warn("client certificates have no scopes, set certificates_file")
	}
	return opts, err
}

// newLog returns a logger that writes to stderr in the configured form. The settings were already
// checked.
func newLog(c config.Config, stderr io.Writer) *slog.Logger {
	level := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	o := &slog.HandlerOptions{Level: level[c.LogLevel]}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(stderr, o))
	}
	return slog.New(slog.NewTextHandler(stderr, o))
}

// announce prints the ready line when the health service reports SERVING.
func (a *app) announce(ctx context.Context, packs []string, stdout io.Writer) error {
	if err := a.serving(ctx); err != nil {
		return err
	}
	ready := Ready{
		Ready: true, GRPC: a.server.Addr(), Socket: a.opts.config.Socket, HTTP: a.server.HTTPAddr(), Metrics: a.server.MetricsAddr(),
		PID: os.Getpid(), Packs: packs,
	}
	if a.cluster != nil {
		ready.Peer = a.cluster.me.Address
	}
	line, err := json.Marshal(ready)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "%s\n", line); err != nil {
		return fmt.Errorf("print the ready line: %w", err)
	}
	return nil
}

// serving waits until the server's own health service reports SERVING. It uses an in-process
// connection.
func (a *app) serving(ctx context.Context) error {
	conn, err := a.server.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := healthpb.NewHealthClient(conn).Watch(ctx, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	for {
		got, err := watch.Recv()
		if err != nil {
			return fmt.Errorf("wait for health: %w", err)
		}
		if got.GetStatus() == healthpb.HealthCheckResponse_SERVING {
			return nil
		}
	}
}

// wait waits until ctx ends, and then returns nil. If a loop ends before that, wait returns the error
// of the loop.
func (a *app) wait(ctx context.Context) error {
	var t *partition
	var ended, failed <-chan error
	if a.cluster != nil {
		failed = a.cluster.ended
	} else {
		t = a.partitions.own()
		ended = t.ended
	}
	var err error
	select {
	case <-ctx.Done():
		return nil
	case err = <-failed:
	case err = <-a.served:
		a.served <- nil
	case err = <-ended:
		t.loops--
	}
	if err == nil {
		err = errors.New("the sidecar stopped by itself")
	}
	return err
}
