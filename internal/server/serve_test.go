package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/script"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

const packFile = "../../testdata/packs/rfc0009-3-self-correcting.json"

// settings returns settings with a free port, and with the data in a temporary directory.
func settings(t *testing.T) config.Config {
	t.Helper()
	c := config.Default()
	c.Data, c.Listen, c.Packs = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", []string{packFile}
	pgserver.UseInConfig(t, &c)
	return c
}

// dataOf returns the store of a sidecar.
func dataOf(c config.Config) Data { return Data{Dir: c.Data, Database: databaseOf(c)} }

// runningSidecar is a Serve in progress.
type runningSidecar struct {
	ready Ready
	stop  context.CancelFunc
	ended chan error
}

// serve runs Serve until its ready line; the caller stops it.
func serve(t *testing.T, c config.Config) *runningSidecar {
	t.Helper()
	if pgserver.StandbyWanted() && c.PeerListen != "" {
		return standBy(t, c)
	}
	return begin(t, c)
}

// standBy serves beside another sidecar that has the store. The other sidecar ends with it.
func standBy(t *testing.T, c config.Config) *runningSidecar {
	t.Helper()
	owner := begin(t, pgserver.Owner(c))
	standby := begin(t, c)
	s := &runningSidecar{ready: standby.ready, stop: standby.stop, ended: make(chan error, 1)}
	go func() {
		err := <-standby.ended
		owner.stop()
		s.ended <- errors.Join(err, <-owner.ended)
	}()
	return s
}

// begin starts this one sidecar, and waits for its ready line.
func begin(t *testing.T, c config.Config) *runningSidecar {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	s := &runningSidecar{stop: stop, ended: make(chan error, 1)}
	out, in := io.Pipe()
	go func() {
		err := Serve(ctx, c, in, io.Discard)
		in.CloseWithError(errors.Join(err, io.EOF))
		s.ended <- err
	}()
	if err := json.NewDecoder(out).Decode(&s.ready); err != nil {
		t.Fatalf("ready line: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return s
}

func dial(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func start(t *testing.T, runs pawlv1.RunServiceClient) *pawlv1.Run {
	t.Helper()
	got, err := runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "self-correcting", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		t.Fatal(err)
	}
	return got.GetRun()
}

func TestServeAndDrain(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.Socket = filepath.Join(t.TempDir(), "s")
	c.HTTP = "127.0.0.1:0"
	s := serve(t, c)
	if !s.ready.Ready || s.ready.Socket != c.Socket || s.ready.HTTP == "" || s.ready.PID != os.Getpid() || len(s.ready.Packs) != 1 {
		t.Errorf("ready line %+v", s.ready)
	}
	runs := pawlv1.NewRunServiceClient(dial(t, s.ready.GRPC))
	run := start(t, runs)
	stream, err := runs.StreamTransitions(t.Context(), &pawlv1.StreamTransitionsRequest{RunId: run.GetRunId(), Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	s.stop()
	// A stream that follows would never end by itself: the drain ends it.
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("drained with %v", err)
	}
	report, err := Check(t.Context(), dataOf(c))
	if err != nil || report.Runs != 1 || report.Packs != 1 {
		t.Errorf("check: %+v, %v", report, err)
	}
}

func TestServeGoesOnAfterRestart(t *testing.T) {
	t.Parallel()
	c := settings(t)
	s := serve(t, c)
	run := start(t, pawlv1.NewRunServiceClient(dial(t, s.ready.GRPC)))
	s.stop()
	if err := <-s.ended; err != nil {
		t.Fatal(err)
	}
	s = serve(t, c)
	got, err := pawlv1.NewRunServiceClient(dial(t, s.ready.GRPC)).GetRun(t.Context(), &pawlv1.GetRunRequest{RunId: run.GetRunId()})
	if err != nil || got.GetRun().GetSeq() != run.GetSeq() || got.GetRun().GetTurn() == nil {
		t.Errorf("after the restart %v, %v", got, err)
	}
	s.stop()
	if err := <-s.ended; err != nil {
		t.Error(err)
	}
}

func TestServeStoppedBeforeItIsReady(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := Serve(ctx, settings(t), &out, io.Discard); err != nil || out.Len() != 0 {
		t.Errorf("%v, printed %q", err, out.String())
	}
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Not deferred: the parallel subtests run after this function has returned.
	t.Cleanup(func() { _ = taken.Close() })
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("id: bad\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*config.Config)
		says   string
	}{
		"an address in use": {func(c *config.Config) { c.Listen = taken.Addr().String() }, "in use"},
		"a bad pack":        {func(c *config.Config) { c.Packs = []string{bad} }, "bad.yaml:1:1: error"},
		"no pack file":      {func(c *config.Config) { c.Packs = []string{bad + "x"} }, "no such file"},
		"no token file":     {func(c *config.Config) { c.TokensFile = bad + "x" }, "no such file"},
		"a bad token file":  {func(c *config.Config) { c.TokensFile = bad }, "line 1"},
		"a bad price file":  {func(c *config.Config) { c.Prices = bad }, "want an object of cached, input, output, reasoning"},
		"no price file":     {func(c *config.Config) { c.Prices = bad + "x" }, "no such file"},
		"no certificate":    {func(c *config.Config) { c.TLSCert, c.TLSKey = bad, bad }, "certificate"},
		"no directory":      {func(c *config.Config) { c.Data, c.Store = filepath.Join(bad, "data"), dsn.URL{} }, "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := settings(t)
			tc.change(&c)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out bytes.Buffer
			err := Serve(ctx, c, &out, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.says) || out.Len() != 0 {
				t.Errorf("error %v does not say %q; printed %q", err, tc.says, out.String())
			}
			// After each failure the directory is free again.
			if _, err := Check(t.Context(), dataOf(c)); err != nil && strings.Contains(err.Error(), "in use") {
				t.Error(err)
			}
		})
	}
}

func TestServeEndsWhenALoopEnds(t *testing.T) {
	t.Parallel()
	c := settings(t)
	opts, err := serveOptions(c, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	a, err := open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.start(); err != nil {
		t.Fatal(err)
	}
	if err := a.awaitServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A loop that ends without being asked is a failure of the process.
	a.partitions.single().cancel()
	if err := a.wait(t.Context()); err == nil {
		t.Error("a sidecar without its engine goes on")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := a.stop(ctx); err != nil {
		t.Error(err)
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.AllowTools = []string{"*"}
	c.Listen, c.HTTP, c.Metrics = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	l, err := StartLocal(c, script.NewClock())
	if err != nil {
		t.Fatal(err)
	}
	if s := l.app.server; s.Addr() != "" || s.HTTPAddr() != "" || s.MetricsAddr() != "" {
		t.Errorf("it can be reached at %q, %q and %q", s.Addr(), s.HTTPAddr(), s.MetricsAddr())
	}
	content, err := os.ReadFile(packFile)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pawlv1.NewPackServiceClient(l.Conn).RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Content: content}); err != nil {
		t.Error(err)
	}
	// Only an administrator may enter any state.
	got, err := pawlv1.NewRunServiceClient(l.Conn).StartRun(t.Context(), &pawlv1.StartRunRequest{
		Pack: "self-correcting", Execution: pawlv1.Execution_EXECUTION_CALLER,
		Entry: &pawlv1.StartRunRequest_State{State: "give_up"},
	})
	if err != nil || !got.GetRun().GetEntryOverride() {
		t.Errorf("%v, %v", got, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(l.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the store was kept: %v", err)
	}
}

func TestCheckOfWhatIsNoStore(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "absent")} {
		if _, err := Check(t.Context(), Data{Dir: dir}); !errors.Is(err, ErrUnusable) {
			t.Errorf("%s: %v", dir, err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("a check made %v", entries)
		}
	}
}
