package export_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/test/testkit"
)

const pack = `{
  "id": "critic", "name": "Critic", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {"agent": {
    "id": "agent", "name": "Agent", "version": "1.0.0", "system_template": "Be {{tone}}.", "tools": ["fetch", "post"],
    "variables": [{"name": "tone", "type": "string", "required": true}]
  }},
  "tools": {"fetch": {"name": "fetch", "description": "Fetches a page"}, "post": {"name": "post", "description": "Posts"}},
  "workflow": {"version": 2, "entry": "act",
    "engine": {"x_pawl": {"tools": {"fetch": {"attempts": 2}, "post": {"approve": "always", "attempts": 2}}}},
    "states": {
      "act": {"prompt_task": "agent", "persistence": "persistent", "on_event": {"Done": "end"}, "artifacts": {
        "plan": {"type": "text/markdown"}, "critique.md": {"type": "text/markdown"},
        "page": {"type": "text/plain"}, "../a b": {"type": "application/json"}, "gone": {"type": "text/plain"}
      }},
      "end": {"prompt_task": "agent", "terminal": true}
    }}
}`

// sidecar is a server over a real store.
type sidecar struct {
	t     *testing.T
	clock *testkit.Clock
	runs  pawlv1.RunServiceClient
	packs pawlv1.PackServiceClient
	// control decides and steers.
	control pawlv1.ControlServiceClient
}

func newSidecar(t *testing.T) *sidecar {
	t.Helper()
	s, err := store.Open(store.Options{Dir: filepath.Join(t.TempDir(), "db"), MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	sc := &sidecar{t: t, clock: testkit.NewClock()}
	engine, err := services.New(services.Config{
		Config: runtime.Config{Store: s, Clock: sc.clock, IDs: &testkit.IDs{}, AllowTools: []string{"*"}}, Blobs: s,
	})
	if err != nil {
		t.Fatal(err)
	}
	server, err := grpcapi.New(grpcapi.Config{Runtime: engine})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve() })
	conn, err := server.Dial(grpc.WithUserAgent("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		serving.Wait()
		_ = engine.Close()
		_ = s.Close()
	})
	sc.control = pawlv1.NewControlServiceClient(conn)
	sc.runs, sc.packs = pawlv1.NewRunServiceClient(conn), pawlv1.NewPackServiceClient(conn)
	if _, err := sc.packs.RegisterPack(context.Background(), &pawlv1.RegisterPackRequest{Content: []byte(pack)}); err != nil {
		t.Fatal(err)
	}
	return sc
}

func (s *sidecar) check(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

func text(words string) []*pawlv1.Part {
	return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: words}}}
}

func write(name, value string) *pawlv1.ArtifactWrite {
	return &pawlv1.ArtifactWrite{Name: name, Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: value}}}
}

// goneRef is a reference to a blob that was never stored.
const goneRef = "blob:sha256:0000000000000000000000000000000000000000000000000000000000000000"

// critique drives RFC-103's worked example, with a fetch that fails once and a
// large result in a blob, and returns the run.
func (s *sidecar) critique(ctx context.Context) (run, page string) {
	s.t.Helper()
	put, err := s.runs.PutBlob(ctx)
	s.check("PutBlob", err)
	s.check("PutBlob", put.Send(&pawlv1.PutBlobRequest{MediaType: "text/html", Data: []byte("<p>Hello"), Last: true}))
	blob, err := put.CloseAndRecv()
	s.check("PutBlob", err)
	started, err := s.runs.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "critic", Execution: pawlv1.Execution_EXECUTION_CALLER, VariablesJson: `{"tone": "constructive"}`,
		Input: text("fetch the page and produce a critique"), RequestId: "order-7",
	})
	s.check("StartRun", err)
	turn := started.GetTurn()
	_, err = s.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "fetch", PayloadJson: `{"url": "http://localhost/", "step": 99}`}},
	})
	s.check("RequestStep", err)
	resolve := &pawlv1.ResolveStepRequest{RunId: turn.GetRunId(), Step: 1, Tool: "fetch", Attempt: 1, TurnToken: turn.GetToken()}
	resolve.Answer = &pawlv1.ResolveStepRequest_Error{Error: &pawlv1.Fault{Code: "TIMEOUT", Message: "slow"}}
	_, err = s.runs.ResolveStep(ctx, resolve)
	s.check("ResolveStep", err)
	s.clock.Advance(time.Second)
	resolve.Attempt, resolve.Answer = 2, &pawlv1.ResolveStepRequest_ResultJson{ResultJson: `{"artifact": "` + blob.GetBlobRef() + `", "excerpt": "Hello"}`}
	_, err = s.runs.ResolveStep(ctx, resolve)
	s.check("ResolveStep", err)
	done, err := s.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(), Event: "Done", Output: text("It says hello."),
		Artifacts: []*pawlv1.ArtifactWrite{
			write("plan", "1. fetch\n"), write("critique.md", "Good.\n\nShort."), write("page", blob.GetBlobRef()), write("gone", goneRef),
			{Name: "../a b", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: `{"n":1}`}}},
		},
	})
	s.check("CompleteTurn", err)
	last := done.GetTurn()
	_, err = s.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
		RunId: last.GetRunId(), TurnSeq: last.GetTurnSeq(), Attempt: 1, TurnToken: last.GetToken(), Output: text("Two paragraphs in critique.md"),
	})
	s.check("CompleteTurn", err)
	return turn.GetRunId(), blob.GetBlobRef()
}
