package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
	"github.com/pawl-dev/pawl/test/testkit/relay"
)

// sharedSettings returns settings with a store that several sidecars can share.
func sharedSettings(t *testing.T) config.Config {
	t.Helper()
	c := config.Default()
	c.Listen, c.PeerListen = "127.0.0.1:0", "127.0.0.1:0"
	c.Store, c.StoreSchema, c.AcceptLossOnFailover = dsn.Parse(pgserver.Shared(t).URL("postgres")), pgserver.Schema(t.TempDir()), true
	return c
}

// TestAStartIsStopped: a sidecar can be stopped while its start waits for a database that takes no commit.
func TestAStartIsStopped(t *testing.T) {
	t.Parallel()
	pgserver.Require(t)
	server := pgserver.Start(t)
	c := sharedSettings(t)
	c.Store = dsn.Parse(server.URL("postgres"))
	one := begin(t, c)
	one.stop()
	if err := <-one.ended; err != nil {
		t.Fatal(err)
	}
	server.Set(t, map[string]string{"synchronous_standby_names": "nobody"})
	c.Namespaces = []string{"red"}
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, c, io.Discard, in)
		_ = in.Close()
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "assigning namespaces to partitions failed") {
			stop()
		}
	}
	if err := <-ended; err != nil || ctx.Err() == nil {
		t.Errorf("it ended with %v", err)
	}
	stop()
}

// TestSeveralExecute: the sidecars that ask models all work for the sidecar that has the store.
// They continue when that sidecar leaves.
func TestSeveralExecute(t *testing.T) {
	t.Parallel()
	model := endpoint.New(t, func(int, endpoint.Request) endpoint.Answer { return endpoint.Answer{Text: "Word."} })
	c := sharedSettings(t)
	c.Models, c.Packs = []string{"gpt=" + model.URL}, []string{writeFile(t, "word.json", modelPack)}
	nodes := []*runningSidecar{begin(t, c), begin(t, c), begin(t, c)}
	for len(nodes) > 0 {
		last := nodes[len(nodes)-1]
		work, runs := pawlv1.NewWorkerServiceClient(dial(t, last.ready.GRPC)), pawlv1.NewRunServiceClient(dial(t, last.ready.GRPC))
		for {
			got, err := work.ListWorkers(t.Context(), &pawlv1.ListWorkersRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.GetWorkers()) == len(nodes) && strings.HasPrefix(got.GetWorkers()[0].GetWorkerId(), "sidecar@") {
				break
			}
		}
		for range 8 {
			got, err := runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "word", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
			if err != nil {
				t.Fatal(err)
			}
			ended, err := runs.WaitRun(t.Context(), &pawlv1.WaitRunRequest{RunId: got.GetRun().GetRunId()})
			if err != nil || ended.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
				t.Fatal(ended, err)
			}
		}
		// The sidecar that came first has the store.
		nodes[0].stop()
		if err := <-nodes[0].ended; err != nil {
			t.Error(err)
		}
		nodes = nodes[1:]
	}
}

// TestOneOfSeveralEnds: a call that waits at a sidecar that ends gets an answer at once,
// independent of which sidecar has the store.
func TestOneOfSeveralEnds(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	c.Packs, c.DrainTimeout = []string{packFile}, time.Hour
	owner, standby := begin(t, c), begin(t, c)
	for _, one := range []*runningSidecar{standby, owner} {
		sent := waits{sent: make(chan struct{})}
		conn, err := grpc.NewClient("passthrough:///"+one.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStatsHandler(sent))
		if err != nil {
			t.Fatal(err)
		}
		runs := pawlv1.NewRunServiceClient(conn)
		run, began := start(t, runs).GetRunId(), time.Now()
		const whole = 5 * time.Minute
		answer := make(chan error, 1)
		go func() {
			got, err := runs.WaitRun(t.Context(), &pawlv1.WaitRunRequest{RunId: run, Timeout: durationpb.New(whole)})
			if err == nil && !got.GetTimedOut() {
				err = fmt.Errorf("the run ended: %v", got)
			}
			answer <- err
		}()
		<-sent.sent
		// This call uses the same connection, behind the call that waits.
		if _, err := runs.GetRun(t.Context(), &pawlv1.GetRunRequest{RunId: run}); err != nil {
			t.Fatal(err)
		}
		one.stop()
		if err := <-one.ended; err != nil {
			t.Error(err)
		}
		if err := <-answer; err != nil && status.Code(err) != codes.Unavailable || time.Since(began) > whole {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOneOfSeveralIsOutOfTime: a sidecar has to end before a call inside has its answer. It closes
// its store once, and ends.
func TestOneOfSeveralIsOutOfTime(t *testing.T) {
	t.Parallel()
	c := sharedSettings(t)
	between := relay.Start(t, pgserver.Shared(t).Addr())
	c.Store = dsn.Parse(strings.Replace(c.Store.Secret(), pgserver.Shared(t).Addr(), between.Addr(), 1))
	c.Packs, c.DrainTimeout = []string{packFile}, 50*time.Millisecond
	one := begin(t, c)
	trap := between.Delay("that-never-arrives")
	answer := make(chan error, 1)
	go func() {
		_, err := pawlv1.NewRunServiceClient(dial(t, one.ready.GRPC)).StartRun(t.Context(), &pawlv1.StartRunRequest{
			Pack: "self-correcting", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "that-never-arrives",
		})
		answer <- err
	}()
	<-trap.Triggered()
	one.stop()
	// The sidecar closes its port when it no longer waits for the call.
	for {
		conn, err := net.Dial("tcp", one.ready.GRPC)
		if err != nil {
			break
		}
		_ = conn.Close()
	}
	trap.Deliver()
	// The error says that the sidecar did not end in time.
	if err := <-one.ended; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it ended with %v", err)
	}
	// The call may have been answered at the last moment.
	if err := <-answer; err != nil && status.Code(err) != codes.Unavailable {
		t.Errorf("the call got %v", err)
	}
}

// TestOneStartsWhileTheDatabaseIsAway: a sidecar starts while the database is unavailable. It waits
// if its packs cannot be registered yet, as it would after its start. If it has just taken the
// store, it takes the store again.
func TestOneStartsWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alone bool
		says  string
	}{
		"beside an owner": {false, "registering configured packs failed, retrying"},
		"as the owner":    {true, "opening partition failed, retrying"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			startsWhileAway(t, c.alone, c.says)
		})
	}
}

func startsWhileAway(t *testing.T, alone bool, says string) {
	c := sharedSettings(t)
	between := relay.Start(t, pgserver.Shared(t).Addr())
	c.Store = dsn.Parse(strings.Replace(c.Store.Secret(), pgserver.Shared(t).Addr(), between.Addr(), 1))
	if !alone {
		begin(t, c)
	}
	// The pack file is a FIFO, so that the test can write it after the database becomes unavailable.
	content, err := os.ReadFile(packFile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pack.json")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Packs = []string{path}
	out, in := io.Pipe()
	logged, log := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Serve(t.Context(), c, in, log)
		in.CloseWithError(errors.Join(err, io.EOF))
		ended <- err
	}()
	waits := make(chan struct{}, 1)
	go func() {
		for lines := bufio.NewScanner(logged); lines.Scan(); {
			if strings.Contains(lines.Text(), says) {
				select {
				case waits <- struct{}{}:
				default:
				}
			}
		}
	}()
	// The FIFO opens for writing when the sidecar opens it for reading.
	opened := make(chan *os.File)
	go func() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
		}
		opened <- file
	}()
	var file *os.File
	select {
	case file = <-opened:
	case err := <-ended:
		t.Fatalf("it ended with %v", err)
	}
	between.Refuse()
	// A later read finds a plain file.
	if err := os.Rename(writeFile(t, "plain.json", string(content)), path); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-waits:
	case err := <-ended:
		t.Fatalf("it ended with %v", err)
	case <-time.After(time.Minute):
		t.Fatalf("the log never has %q", says)
	}
	between.Accept()
	var ready Ready
	if err := json.NewDecoder(out).Decode(&ready); err != nil || len(ready.Packs) != 1 {
		t.Errorf("ready with %v: %v", ready.Packs, err)
	}
}

// silentCollector is a collector that answers nothing. timeouts gets how long each request would wait for it.
type silentCollector struct {
	collectorpb.UnimplementedTraceServiceServer
	timeouts chan time.Duration
}

func (d *silentCollector) Export(ctx context.Context, _ *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	until, _ := ctx.Deadline()
	d.timeouts <- time.Until(until)
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestACollectorThatHangs: a sidecar that waits for the store does not wait until the one
// before has exported its traces.
func TestACollectorThatHangs(t *testing.T) {
	t.Parallel()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	traces, server := &silentCollector{timeouts: make(chan time.Duration, 100)}, grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, traces)
	go func() { _ = server.Serve(ln) }()
	defer server.Stop()
	c := sharedSettings(t)
	c.Packs, c.OTLPEndpoint, c.TraceSample = []string{packFile}, "http://"+ln.Addr().String(), 1
	one := begin(t, c)
	runs := pawlv1.NewRunServiceClient(dial(t, one.ready.GRPC))
	ends := func() {
		if _, err := runs.CancelRun(t.Context(), &pawlv1.CancelRunRequest{RunId: start(t, runs).GetRunId()}); err != nil {
			t.Fatal(err)
		}
	}
	ends()
	last := <-traces.timeouts
	// The exporter still tries to send the first trace when there is a second one.
	ends()
	one.stop()
	if err := <-one.ended; err != nil {
		t.Error(err)
	}
	for len(traces.timeouts) > 0 {
		last = <-traces.timeouts
	}
	if last > handoverExportTimeout {
		t.Errorf("the last traces were given %v, want at most %v", last, handoverExportTimeout)
	}
}

// waits closes its channel when a WaitRun was sent.
type waits struct{ sent chan struct{} }

func (waits) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (waits) HandleConn(context.Context, stats.ConnStats)                       {}

type waitTag struct{}

func (waits) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, waitTag{}, info.FullMethodName == pawlv1.RunService_WaitRun_FullMethodName)
}

func (w waits) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if _, out := s.(*stats.OutPayload); out && ctx.Value(waitTag{}) == true {
		close(w.sent)
	}
}

// TestOneOfSeveralRefuses: a condition that would keep a sidecar from having the store keeps it
// from starting, whether or not another sidecar has the store.
func TestOneOfSeveralRefuses(t *testing.T) {
	t.Parallel()
	whole := sharedSettings(t)
	owner := begin(t, whole)
	missing := filepath.Join(t.TempDir(), "missing")
	for want, fault := range map[string]func(*config.Config){
		"schedules":    func(c *config.Config) { c.Schedules = missing },
		"budgets":      func(c *config.Config) { c.Budgets = missing },
		"prices":       func(c *config.Config) { c.Prices = missing },
		"models":       func(c *config.Config) { c.ModelsFile = missing },
		"quotas":       func(c *config.Config) { c.QuotasFile = missing },
		"call limits":  func(c *config.Config) { c.CallLimits = missing },
		"card key":     func(c *config.Config) { c.A2ACardKey = missing },
		"pack":         func(c *config.Config) { c.Packs = []string{missing} },
		"faulty pack":  func(c *config.Config) { c.Packs = []string{writeFile(t, "p.json", `{"id": 1}`)} },
		"peer address": func(c *config.Config) { c.PeerListen = owner.ready.Peer },
	} {
		c := whole
		fault(&c)
		if err := Serve(t.Context(), c, new(strings.Builder), new(strings.Builder)); err == nil {
			t.Errorf("%s: it serves", want)
		}
	}
	owner.stop()
	if err := <-owner.ended; err != nil {
		t.Error(err)
	}
}
