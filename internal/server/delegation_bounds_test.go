package server

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// circlePack is a pack NAME whose agent asks one that lives elsewhere, within a
// wall time.
func circlePack(name string, seconds int) string {
	return fmt.Sprintf(`{
  "id": %q, "name": "Circle", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {
    "asker": {"id": "asker", "name": "Asker", "version": "1.0.0", "system_template": "Ask.", "tools": ["other"]},
    "other": {"id": "other", "name": "Other", "version": "1.0.0", "system_template": "Elsewhere."}
  },
  "agents": {"entry": "asker", "members": {"asker": {"state": "ask"}, "other": {}}},
  "workflow": {
    "version": 2, "entry": "ask", "engine": {"budget": {"max_wall_time_sec": %d}},
    "states": {"ask": {"prompt_task": "asker", "on_event": {"Done": "end"}}, "end": {"prompt_task": "asker", "terminal": true}}
  }
}`, name, seconds)
}

// asker returns a turn that asks the next agent, and ends with the result.
func asker(asked *atomic.Int64) pawl.TurnFunc {
	return func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
		if t.Assignment.GetTurn().GetTerminal() {
			return pawl.Completion{}, nil
		}
		asked.Add(1)
		result, err := t.Step(ctx, "", "other", `{"message":"go"}`)
		if err != nil {
			result = err.Error()
		}
		return pawl.Completion{Event: "Done", Output: text(result)}, nil
	}
}

// laterCard serves the card of a sidecar that has no address yet.
func laterCard(t *testing.T) (url string, is func(grpcAddr, tenant string)) {
	t.Helper()
	var card atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		words, _ := card.Load().(string)
		_, _ = w.Write([]byte(words))
	}))
	t.Cleanup(s.Close)
	return s.URL, func(grpcAddr, tenant string) {
		card.Store(fmt.Sprintf(`{"name":"later","supportedInterfaces":[{"url":%q,"protocolBinding":"GRPC","protocolVersion":"1.0","tenant":%q}],"capabilities":{"extensions":[{"uri":%q}]}}`, grpcAddr, tenant, protocol.DelegationURI))
	}
}

// circle is two sidecars whose agents ask each other.
type circle struct {
	ctx      context.Context
	a, b     *runningSidecar
	runs     [2]pawlv1.RunServiceClient
	requests atomic.Int64
}

func newCircle(t *testing.T) *circle {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	c := &circle{ctx: ctx}
	cardA, isA := laterCard(t)
	cardB, isB := laterCard(t)
	side := func(name, elsewhere string, seconds int) *runningSidecar {
		conf := settings(t)
		conf.Packs = []string{packWith(t, circlePack(name, seconds))}
		conf.AllowTools, conf.Agents = []string{"*"}, map[string]config.Agent{"other": {Card: elsewhere}}
		return serveToEnd(t, conf)
	}
	c.a, c.b = side("red", cardB, 600), side("blue", cardA, 6000)
	isA(c.a.ready.GRPC, "red/asker")
	isB(c.b.ready.GRPC, "blue/asker")
	for i, s := range []*runningSidecar{c.a, c.b} {
		c.runs[i] = runWorker(t, s, "w", map[string]pawl.TurnFunc{"asker": asker(&c.requests)})
	}
	return c
}

// TestDelegationsInACircle: two sidecars that ask each other are stopped at the
// depth limit by a typed error, and every run on the way back ends.
func TestDelegationsInACircle(t *testing.T) {
	t.Parallel()
	c := newCircle(t)
	started, err := c.runs[0].StartRun(c.ctx, &pawlv1.StartRunRequest{Pack: "red", Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := c.runs[0].WaitRun(c.ctx, &pawlv1.WaitRunRequest{RunId: started.GetRun().GetRunId()})
	if err != nil || ended.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Fatalf("ended %v, %v", ended, err)
	}
	if n := c.requests.Load(); n != machine.MaxDepth+1 {
		t.Errorf("%d agents asked, want %d", n, machine.MaxDepth+1)
	}
	refused := 0
	for _, runs := range c.runs {
		list, err := runs.ListRuns(c.ctx, &pawlv1.ListRunsRequest{PageSize: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range list.GetRuns() {
			refused += c.deepest(t, runs, run)
		}
	}
	if refused != 1 {
		t.Errorf("%d steps were refused for their depth, want 1", refused)
	}
}

// deepest checks a run of the circle and counts its steps that were refused.
func (c *circle) deepest(t *testing.T, runs pawlv1.RunServiceClient, run *pawlv1.Run) (refused int) {
	t.Helper()
	if run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Errorf("run %s at depth %d is %v (%s)", run.GetRunId(), run.GetDepth(), run.GetStatus(), run.GetReason())
	}
	// No run shows the address of the other sidecar, and no sidecar takes a run of the other for its own.
	if origin := run.GetParent().GetOrigin(); run.GetParent() != nil && origin != machine.OriginUnknown {
		t.Errorf("the parent of run %s is at %q, want %q", run.GetRunId(), origin, machine.OriginUnknown)
	}
	got, err := runs.ListTransitions(c.ctx, &pawlv1.ListTransitionsRequest{RunId: run.GetRunId(), Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED}})
	if err != nil || len(got.GetRecords()) != 1 {
		t.Fatalf("answers %v, %v", got, err)
	}
	if code := got.GetRecords()[0].GetStepResolved().GetError().GetCode(); code == "MAX_DEPTH" {
		if run.GetDepth() != machine.MaxDepth {
			t.Errorf("refused at depth %d", run.GetDepth())
		}
		return 1
	}
	return 0
}

// TestDelegationBounds: a child has the smaller of its own wall time and the time that was left to
// its parent. It has a context of its own.
func TestDelegationBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		here, there int
		want        time.Duration
	}{
		{"its own is smaller", 6000, 600, 600 * time.Second},
		{"its parent's is smaller", 600, 6000, 600 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			card, is := laterCard(t)
			conf := settings(t)
			conf.Packs, conf.AllowTools = []string{packWith(t, circlePack("red", tt.here))}, []string{"*"}
			conf.Agents = map[string]config.Agent{"other": {Card: card}}
			a := serveToEnd(t, conf)
			far := settings(t)
			far.Packs = []string{packWith(t, circlePack("blue", tt.there))}
			b := serveToEnd(t, far)
			is(b.ready.GRPC, "blue/asker")
			// No worker is at sidecar b, so the child stays as it was started.
			runs := runWorker(t, a, "w", map[string]pawl.TurnFunc{"asker": asker(new(atomic.Int64))})
			parent, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "red", Execution: pawlv1.Execution_EXECUTION_WORKERS})
			if err != nil {
				t.Fatal(err)
			}
			remote := remoteOf(ctx, t, runs, parent.GetRun().GetRunId())
			child, err := runsOf(t, b).GetRun(ctx, &pawlv1.GetRunRequest{RunId: remote.GetTaskId()})
			if err != nil {
				t.Fatal(err)
			}
			remaining := child.GetRun().GetDeadline().AsTime().Sub(child.GetRun().GetCreatedAt().AsTime())
			if remaining > tt.want || remaining < tt.want-60*time.Second || child.GetRun().GetDepth() != 1 {
				t.Errorf("the child has %v at depth %d, want at most %v at 1", remaining, child.GetRun().GetDepth(), tt.want)
			}
			task, err := agentsOf(t, b).GetTask(metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0"), &a2apb.GetTaskRequest{Tenant: "blue/asker", Id: remote.GetTaskId()})
			if err != nil || task.GetContextId() == "" || task.GetContextId() != remote.GetContextId() || strings.Contains(task.GetContextId(), parent.GetRun().GetRunId()) {
				t.Errorf("the context is %q, the parent knows %q, %v", task.GetContextId(), remote.GetContextId(), err)
			}
		})
	}
}

// remoteOf waits until a run knows the task of its agent.
func remoteOf(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, run string) *pawlv1.Remote {
	t.Helper()
	stream, err := runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{
		RunId: run, Follow: true, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DELEGATED},
	})
	for err == nil {
		var got *pawlv1.StreamTransitionsResponse
		if got, err = stream.Recv(); got.GetRecord().GetStepDelegated().GetRemote().GetTaskId() != "" {
			return got.GetRecord().GetStepDelegated().GetRemote()
		}
	}
	t.Fatalf("no task: %v", err)
	return nil
}

func runsOf(t *testing.T, s *runningSidecar) pawlv1.RunServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(s.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return pawlv1.NewRunServiceClient(conn)
}

func packWith(t *testing.T, words string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pack.json")
	if err := os.WriteFile(path, []byte(words), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
