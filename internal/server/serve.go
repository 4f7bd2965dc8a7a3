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

	"github.com/pawl-dev/pawl/internal/build"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime"
)

// Ready is the JSON line that a sidecar prints when it is ready to serve.
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

// Serve runs a sidecar until ctx ends, and then drains it. First it checks the files of the configuration
// ([CheckFiles]), unless one of them can be read only once. It prints the [Ready] line on stdout and
// logs to stderr. On SIGHUP, and when they have changed, it reads the reloadable files again. The error is the reason why the
// sidecar could not serve, or why it ended: an error of a listener, or a commit with an unknown
// outcome.
func Serve(ctx context.Context, c config.Config, stdout, stderr io.Writer) error {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	if !readsPipes(c) {
		if err := CheckFiles(c); err != nil {
			return err
		}
	}
	watch := newFileWatch(c) // before the files are read
	opts, err := serveOptions(c, stderr)
	if err != nil {
		return err
	}
	logWarnings(ctx, opts, Warnings(c, opts.clock.Now()))
	a, err := open(ctx, opts)
	if err != nil && errors.Is(err, ctx.Err()) {
		// The sidecar was stopped while it waited for a database, which is no error.
		return nil
	}
	if err != nil {
		return err
	}
	names, err := a.begin(ctx)
	go a.reloads(ctx, hangups, watch)
	if err == nil {
		err = a.announce(ctx, names, stdout)
	}
	switch {
	case ctx.Err() != nil:
		// The sidecar was stopped before it was ready, which is no error.
		err = nil
	case err == nil:
		go settle(ctx)
		err = a.wait(ctx)
	}
	opts.log.Info("draining", "timeout", c.DrainTimeout)
	drain, cancel := context.WithTimeout(context.Background(), c.DrainTimeout)
	defer cancel()
	began := opts.clock.Now()
	err = errors.Join(err, a.stop(drain))
	opts.log.Info("stopped", "duration", opts.clock.Now().Sub(began))
	return err
}

// logWarnings logs likely mistakes in the configuration. Each first start has no store.
func logWarnings(ctx context.Context, opts options, warnings []config.Fault) {
	for _, warning := range warnings {
		level := slog.LevelWarn
		if warning.Field == "data" {
			level = slog.LevelInfo
		}
		opts.log.Log(ctx, level, "configuration warning", "setting", warning.Field, "message", warning.Message)
	}
}

// begin registers the configured packs, stores the configured schedules and starts to serve. A node of a
// cluster serves first, because it registers the packs through the cluster. Without a cluster, begin
// starts to serve even after an error, because stop waits for the end of the server. It returns the packs
// as id@version.
func (a *app) begin(ctx context.Context) (names []string, err error) {
	packs := a.opts.config.Packs
	if a.cluster != nil {
		if err = a.start(); err == nil {
			err = a.awaitServing(ctx)
		}
		if err != nil {
			return nil, err
		}
		names, err = a.offerPacks(ctx, packs)
		a.cluster.packsRegistered.Store(err == nil)
		return names, err
	}
	t := a.partitions.single()
	if names, err = t.registerPacks(ctx, packs); err == nil {
		err = t.storeSchedules(ctx)
	}
	return names, errors.Join(err, a.start())
}

func serveOptions(c config.Config, stderr io.Writer) (options, error) {
	opts := options{config: c, clock: runtime.SystemClock{}, log: newLog(c, stderr)}
	var err error
	opts.rights, err = readRights(c)
	if err == nil && c.TLSClientCA != "" && c.TokensFile == "" && c.OIDCFile == "" && c.CertificatesFile == "" {
		opts.log.Warn("client certificates have no scopes, set certificates_file")
	}
	if len(c.Ignored) > 0 {
		opts.log.Warn("environment variables are no settings and are ignored", "variables", c.Ignored)
	}
	return opts, err
}

// newLog returns a logger that writes to stderr in the configured format. The configuration has already
// checked the settings.
func newLog(c config.Config, stderr io.Writer) *slog.Logger {
	level := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	o := &slog.HandlerOptions{Level: level[c.LogLevel], ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // JSON would have nanoseconds
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(stderr, o))
	}
	return slog.New(slog.NewTextHandler(stderr, o))
}

// announce logs the start and prints the ready line when the health service reports SERVING.
func (a *app) announce(ctx context.Context, packs []string, stdout io.Writer) error {
	if err := a.awaitServing(ctx); err != nil {
		return err
	}
	ready := Ready{
		Ready: true, GRPC: a.server.Addr(), Socket: a.opts.config.Socket, HTTP: a.server.HTTPAddr(), Metrics: a.server.MetricsAddr(),
		PID: os.Getpid(), Packs: packs,
	}
	if a.cluster != nil {
		ready.Peer = a.cluster.self.Address
	}
	a.logStart(ctx, ready)
	line, err := json.Marshal(ready)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "%s\n", line); err != nil {
		return fmt.Errorf("print the ready line: %w", err)
	}
	return nil
}

// logStart logs the version, the store, its format and the addresses, without those that are off. A node that has no
// partition open yet logs no format.
func (a *app) logStart(ctx context.Context, ready Ready) {
	attrs := []any{"version", build.Version(), "store", a.opts.storeName()}
	if all := a.partitions.all(); len(all) > 0 {
		attrs = append(attrs, "format", all[0].store.Format())
	}
	for _, at := range [][2]string{{"grpc", ready.GRPC}, {"socket", ready.Socket}, {"http", ready.HTTP}, {"metrics", ready.Metrics}, {"peer", ready.Peer}} {
		if at[1] != "" {
			attrs = append(attrs, at[0], at[1])
		}
	}
	attrs = append(attrs, "tls", a.opts.config.TLSCert != "", "authentication", a.opts.config.Secured())
	a.opts.log.InfoContext(ctx, "serving", attrs...)
}

// storeName returns the directory or the database of the store, without the password.
func (o options) storeName() string {
	if o.config.Store.IsZero() {
		return o.config.Data
	}
	return databaseOf(o.config).String()
}

// awaitServing waits until the server can serve calls. It asks the server's own health service over an
// in-process connection.
func (a *app) awaitServing(ctx context.Context) error {
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

// wait waits until ctx ends, and then returns nil. If the server, a background loop or the cluster node
// ends first, it returns the error.
func (a *app) wait(ctx context.Context) error {
	var t *partition
	var ended, failed <-chan error
	if a.cluster != nil {
		failed = a.cluster.ended
	} else {
		t = a.partitions.single()
		ended = t.ended
	}
	var err error
	select {
	case <-ctx.Done():
		return nil
	case err = <-failed:
	case err = <-a.serveErrors:
		a.serveErrors <- nil // stop reads the channel again
	case err = <-ended:
		t.loops-- // drain must not wait for this loop
	}
	if err == nil {
		err = errors.New("the sidecar stopped by itself")
	}
	return err
}
