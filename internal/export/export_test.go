package export_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/export"
)

func read(t *testing.T, dir, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestWorkspace: the workspace of a run has the layout of RFC-103, with its blobs.
func TestWorkspace(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), context.Background()
	run, page := s.critique(ctx)
	dir := filepath.Join(t.TempDir(), "workspace")
	w := &export.Workspace{Runs: s.runs, Packs: s.packs}
	got, err := w.Export(ctx, run, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := "context.md plan.md memory.md trace.jsonl artifacts/_a_b.json artifacts/critique.md artifacts/gone.txt artifacts/page.txt artifacts/plan.md"
	if files := strings.Join(got.Files[:len(got.Files)-1], " "); files != want {
		t.Fatalf("wrote %s\nwant  %s", files, want)
	}
	if last := got.Files[len(got.Files)-1]; last != "artifacts/blob-"+page[len("blob:sha256:"):]+".html" {
		t.Fatalf("the blob of the step is in %s", last)
	}
	if len(got.Missing) != 1 || got.Missing[0] != goneRef {
		t.Fatalf("missing %v", got.Missing)
	}
	for name, content := range map[string]string{
		"plan.md": "1. fetch\n", "artifacts/critique.md": "Good.\n\nShort.", "artifacts/page.txt": "<p>Hello",
		"artifacts/_a_b.json": `{"n":1}`, "artifacts/gone.txt": goneRef,
		"memory.md": "## user (act)\n\nfetch the page and produce a critique\n\n## assistant (act)\n\nIt says hello.\n\n",
	} {
		if got := read(t, dir, name); got != content {
			t.Errorf("%s is %q, want %q", name, got, content)
		}
	}
	notes := read(t, dir, "context.md")
	for _, part := range []string{run, "critic@1.0.0", "status: COMPLETED", "\"tone\": \"constructive\"", "fetch the page"} {
		if !strings.Contains(notes, part) {
			t.Errorf("context.md lacks %q:\n%s", part, notes)
		}
	}
	lines := strings.Split(strings.TrimSpace(read(t, dir, "trace.jsonl")), "\n")
	for i, line := range lines {
		var record struct{ Seq int }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Seq != i+1 {
			t.Fatalf("line %d of the trace: %v, %s", i+1, err, line)
		}
	}
	if _, err := w.Export(ctx, run, dir); err == nil {
		t.Fatal("a workspace was written over another")
	}
	if _, err := w.Export(ctx, "01J99999999999999999999999", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Fatal("the workspace of no run was written")
	}
}

// events returns the events of a run as JSON lines.
func (s *sidecar) events(ctx context.Context, run string, types ...string) []string {
	s.t.Helper()
	stream, err := s.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{RunId: run, Kinds: export.AgenticKinds})
	s.check("StreamTransitions", err)
	a := &export.Agentic{Runs: s.runs, Types: types}
	var lines []string
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return lines
		}
		s.check("Recv", err)
		event, err := a.Event(ctx, item.GetRecord())
		s.check("Event", err)
		if event == nil {
			continue
		}
		line, err := json.Marshal(event.Object())
		s.check("Marshal", err)
		lines = append(lines, string(line))
	}
}

// TestAgentic: a run is exported as events of RFC-103, each once, with the fields and the dedupe keys of the
// RFC. A "step" in a payload replaces no field.
func TestAgentic(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), context.Background()
	run, page := s.critique(ctx)
	want := strings.NewReplacer("RUN", run, "PAGE", page).Replace(`{"type":"agentic.start","payload":{"run_id":"RUN","external_id":"order-7","goal":"fetch the page and produce a critique","context":{"tone":"constructive"},"pack":"critic@1.0.0"},"dedupe_key":"agentic:start:order-7"}
{"type":"agentic.tool_request.fetch","payload":{"run_id":"RUN","step":1,"tool":"fetch","tool_command":"handle","tool_payload":{"url":"http://localhost/","step":99},"attempt":1,"requested_at":"2026-01-02T03:04:05Z"},"dedupe_key":"agentic:run:RUN:step:1:request"}
{"type":"agentic.tool_request.fetch","payload":{"run_id":"RUN","step":1,"tool":"fetch","tool_command":"handle","tool_payload":{"url":"http://localhost/","step":99},"attempt":2,"requested_at":"2026-01-02T03:04:05Z"},"dedupe_key":"agentic:run:RUN:step:1:request:attempt:2"}
{"type":"agentic.tool_result","payload":{"run_id":"RUN","step":1,"tool":"fetch","attempt":2,"status":"ok","result":{"artifact":"PAGE","excerpt":"Hello"},"error":null,"completed_at":"2026-01-02T03:04:06Z"},"dedupe_key":"agentic:run:RUN:step:1:result"}
{"type":"agent.completed","payload":{"run_id":"RUN","goal":"fetch the page and produce a critique","outcome":"Two paragraphs in critique.md","status":"COMPLETED","reason":"completed","lost":null,"steps_taken":1,"artifacts":["artifacts/_a_b.json","artifacts/critique.md","artifacts/gone.txt","artifacts/page.txt","artifacts/plan.md"],"completed_at":"2026-01-02T03:04:06Z"},"dedupe_key":"agentic:run:RUN:completed"}`)
	if got := strings.Join(s.events(ctx, run), "\n"); got != want {
		t.Fatalf("told\n%s\nwant\n%s", got, want)
	}
	for name, n := range map[string]int{
		export.TypeStart: 1, export.TypeToolRequest: 2, export.TypeToolRequest + ".fetch": 2, export.TypeToolRequest + ".other": 0,
		export.TypeToolResult: 1, export.TypeCompleted: 1, export.TypeEscalated: 0,
	} {
		if got := s.events(ctx, run, name); len(got) != n {
			t.Errorf("%d events %s, want %d", len(got), name, n)
		}
	}
}

// TestModelCallsAreNoSteps: RFC-103 has only steps of tools. A call of a model is no event and is not counted.
func TestModelCallsAreNoSteps(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), context.Background()
	started, err := s.runs.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "critic", Execution: pawlv1.Execution_EXECUTION_CALLER, VariablesJson: `{"tone": "dry"}`, Input: text("go"), RequestId: "order-8",
	})
	s.check("StartRun", err)
	turn := started.GetTurn()
	run := turn.GetRunId()
	asked, err := s.runs.RequestModel(ctx, &pawlv1.RequestModelRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(), Round: 1, Request: &pawlv1.ModelRequest{Model: "gpt"},
	})
	s.check("RequestModel", err)
	_, err = s.runs.AnswerModel(ctx, &pawlv1.AnswerModelRequest{
		RunId: run, Step: asked.GetStep().GetStep(), Attempt: 1, TurnToken: turn.GetToken(),
		Outcome: &pawlv1.AnswerModelRequest_Answer{Answer: &pawlv1.ModelAnswer{Calls: []*pawlv1.ModelCall{{Name: "fetch", Arguments: "{}"}}}},
	})
	s.check("AnswerModel", err)
	_, err = s.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "fetch", PayloadJson: "{}", Call: &pawlv1.ToolCallRef{ModelStep: 1}}},
	})
	s.check("RequestStep", err)
	_, err = s.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run})
	s.check("CancelRun", err)
	events := s.events(ctx, run, export.TypeToolRequest, export.TypeToolResult, export.TypeEscalated)
	if len(events) != 2 || !strings.Contains(events[0], `"step":2,"tool":"fetch"`) || !strings.Contains(events[1], `"steps_taken":1,`) {
		t.Errorf("%q", events)
	}
	w := &export.Workspace{Runs: s.runs, Packs: s.packs}
	dir := filepath.Join(t.TempDir(), "w")
	if _, err := w.Export(ctx, run, dir); err != nil {
		t.Fatal(err)
	}
	if notes := read(t, dir, "context.md"); !strings.Contains(notes, "- steps: 1\n") {
		t.Error(notes)
	}
}

// TestAgenticWithoutID: if the caller gives no id, the event of the start has the id of the run. The bound on
// the run's steps is in the context of this event.
func TestAgenticWithoutID(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), context.Background()
	started, err := s.runs.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "critic", Execution: pawlv1.Execution_EXECUTION_CALLER, VariablesJson: `{"tone": "harsh"}`, MaxSteps: 4,
	})
	s.check("StartRun", err)
	run := started.GetRun().GetRunId()
	want := `{"type":"agentic.start","payload":{"run_id":"` + run + `","external_id":"","goal":"","context":{"max_steps":4,"tone":"harsh"},"pack":"critic@1.0.0"},"dedupe_key":"agentic:start:` + run + `"}`
	if got := strings.Join(s.events(ctx, run), "\n"); got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
}

// TestLostEventIsTold: if the end of a run lost an event, the last event of the run names it.
func TestLostEventIsTold(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), context.Background()
	bounded := strings.NewReplacer(`"id": "critic"`, `"id": "bounded"`, `{"x_pawl"`, `{"budget": {"max_total_visits": 1}, "x_pawl"`).Replace(pack)
	_, err := s.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(bounded)})
	s.check("RegisterPack", err)
	started, err := s.runs.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "bounded", Execution: pawlv1.Execution_EXECUTION_CALLER, VariablesJson: `{"tone": "harsh"}`,
	})
	s.check("StartRun", err)
	turn := started.GetTurn()
	_, err = s.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(), Event: "Done",
	})
	s.check("CompleteTurn", err)
	got := s.events(ctx, turn.GetRunId(), export.TypeEscalated)
	if want := `"reason":"max_total_visits","lost":{"event":"Done","intended_state":"end","refused":[]}`; len(got) != 1 || !strings.Contains(got[0], want) {
		t.Errorf("told %v, want %s", got, want)
	}
}

// TestEscalated: a run that did not complete has one event, of the type escalated.
func TestEscalated(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), context.Background()
	started, err := s.runs.StartRun(ctx, &pawlv1.StartRunRequest{
		Pack: "critic", Execution: pawlv1.Execution_EXECUTION_CALLER, VariablesJson: `{"tone": "harsh"}`,
	})
	s.check("StartRun", err)
	turn := started.GetTurn()
	_, err = s.runs.FailTurn(ctx, &pawlv1.FailTurnRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(), Error: &pawlv1.Fault{Code: "NO_MODEL"},
	})
	s.check("FailTurn", err)
	got := s.events(ctx, turn.GetRunId(), export.TypeCompleted, export.TypeEscalated)
	if len(got) != 1 || !strings.Contains(got[0], `"type":"agent.escalated"`) || !strings.Contains(got[0], `"status":"FAILED","reason":"turn_failed"`) {
		t.Fatalf("told %v", got)
	}
}

func TestCheckTypes(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		export.TypeStart: true, "agentic.tool_request.fetch": true, "agentic.tool_request.": false, "agentic.end": false, "": false,
	} {
		if err := export.CheckTypes([]string{name}); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestControlled: the workspace contains what a person said to the run while it went on. A held call is in the
// events only after its approval, with the payload that was approved.
func TestControlled(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), context.Background()
	started, err := s.runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "critic", Execution: pawlv1.Execution_EXECUTION_CALLER, VariablesJson: `{"tone": "dry"}`})
	s.check("StartRun", err)
	turn, run := started.GetTurn(), started.GetRun().GetRunId()
	_, err = s.control.SteerRun(ctx, &pawlv1.SteerRunRequest{RunId: run, Text: "mind the date"})
	s.check("SteerRun", err)
	_, err = s.runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		RunId: run, TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Tool: "post", PayloadJson: `{"n":1}`}, {Tool: "post", PayloadJson: `{"n":2}`}},
	})
	s.check("RequestStep", err)
	if got := s.events(ctx, run, export.TypeToolRequest); got != nil {
		t.Errorf("held calls are told: %v", got)
	}
	waits, err := s.control.ListApprovals(ctx, &pawlv1.ListApprovalsRequest{RunId: run, Order: pawlv1.RunOrder_RUN_ORDER_OLDEST_FIRST})
	s.check("ListApprovals", err)
	for i, decision := range []pawlv1.StepDecision{pawlv1.StepDecision_STEP_DECISION_EDIT, pawlv1.StepDecision_STEP_DECISION_DENY} {
		call := waits.GetApprovals()[i].GetCall()
		req := &pawlv1.DecideStepRequest{RunId: run, Step: call.GetStep(), Digest: call.GetApproval().GetDigest(), Decision: decision}
		if decision == pawlv1.StepDecision_STEP_DECISION_EDIT {
			req.PayloadJson = `{"n":7}`
		}
		_, err = s.control.DecideStep(ctx, req)
		s.check("DecideStep", err)
	}
	_, err = s.runs.ResolveStep(ctx, &pawlv1.ResolveStepRequest{
		RunId: run, Step: 1, Tool: "post", Attempt: 1, TurnToken: turn.GetToken(),
		Answer: &pawlv1.ResolveStepRequest_Error{Error: &pawlv1.Fault{Code: "TIMEOUT", Message: "slow"}},
	})
	s.check("ResolveStep", err)
	events := strings.Join(s.events(ctx, run, export.TypeToolRequest), "\n")
	if strings.Count(events, `"tool_payload":{"n":7}`) != 2 || strings.Contains(events, `{"n":1}`) || strings.Contains(events, `{"n":2}`) {
		t.Errorf("the events are\n%s", events)
	}
	_, err = s.control.SteerRun(ctx, &pawlv1.SteerRunRequest{RunId: run, Text: "do it today", When: pawlv1.SteerWhen_STEER_WHEN_NOW})
	s.check("SteerRun", err)
	dir := filepath.Join(t.TempDir(), "workspace")
	_, err = (&export.Workspace{Runs: s.runs, Packs: s.packs}).Export(ctx, run, dir)
	s.check("Export", err)
	if got := read(t, dir, "memory.md"); got != "## user (act)\n\nmind the date\n\n## user (act)\n\ndo it today\n\n" {
		t.Errorf("memory.md is %q", got)
	}
	if got := read(t, dir, "context.md"); !strings.Contains(got, "(NEXT_MODEL_CALL)") || !strings.Contains(got, "\n\ndo it today\n") {
		t.Errorf("context.md is %s", got)
	}
}
