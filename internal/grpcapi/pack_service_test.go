package grpcapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/convert"
)

func TestValidatePack(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	got, err := r.packs.ValidatePack(ctx, &pawlv1.ValidatePackRequest{Content: loopPack})
	if err != nil || !got.GetOk() || got.GetId() != "loop" || got.GetVersion() != "1.0.0" || !strings.HasPrefix(got.GetDigest(), "sha256:") {
		t.Fatalf("ValidatePack %v, %v", got, err)
	}
	term := got.GetTermination()
	if term.GetBounded() || len(term.GetCycle()) == 0 || term.GetMaxVisits() != 0 || len(term.GetAlsoLimitedBy()) == 0 {
		t.Fatalf("termination %v", term)
	}
	edge := term.GetCycle()[len(term.GetCycle())-1]
	if first := term.GetCycle()[0]; edge.GetToState() != first.GetFromState() {
		t.Fatalf("the cycle does not close: %v", term.GetCycle())
	}
	if len(got.GetAgentTerminations()) != 2 || got.GetAgentTerminations()[0].GetAgent() != "approver" || !got.GetAgentTerminations()[0].GetBounded() {
		t.Fatalf("agents %v", got.GetAgentTerminations())
	}
	if page, err := r.packs.ListPacks(ctx, &pawlv1.ListPacksRequest{}); err != nil || len(page.GetPacks()) != 0 {
		t.Fatalf("ValidatePack stored something: %v, %v", page, err)
	}
}

// TestCycleGoesThroughForcedExits: a guarded state is used up on a cycle that
// repeats for ever, so the cycle is shown with the state really entered.
func TestCycleGoesThroughForcedExits(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	document := bytes.ReplaceAll(loopPack, []byte(`"on_event": {"Again": "work", "Ask": "gate", "Share": "desk", "Check": "check", "Finish": "done"}`),
		[]byte(`"on_event": {"Check": "check", "Finish": "done"}`))
	got, err := r.packs.ValidatePack(ctx, &pawlv1.ValidatePackRequest{Content: document})
	if err != nil || !got.GetOk() {
		t.Fatalf("ValidatePack %v, %v", got, err)
	}
	want := &pawlv1.CycleEdge{FromState: "work", Event: "Check", ToState: "work"}
	if cycle := got.GetTermination().GetCycle(); len(cycle) != 1 || !proto.Equal(cycle[0], want) {
		t.Fatalf("cycle %v", cycle)
	}
}

func TestRegisterGetListGraph(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	first, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: loopPack})
	if err != nil || first.GetDuplicate() || first.GetPack().GetEntry() != "work" || !first.GetPack().GetIsDefault() ||
		first.GetPack().GetSizeBytes() != int64(len(loopPack)) || len(first.GetPack().GetAgents()) != 2 {
		t.Fatalf("RegisterPack %v, %v", first, err)
	}
	again, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: loopPack})
	if err != nil || !again.GetDuplicate() || again.GetPack().GetDigest() != first.GetPack().GetDigest() {
		t.Fatalf("RegisterPack again: %v, %v", again, err)
	}
	other := bytes.Replace(loopPack, []byte(`"Does it"`), []byte(`"Does that"`), 1)
	_, err = r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: other})
	wantError(t, err, codes.AlreadyExists, "PACK_VERSION_TAKEN")
	moved, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: other, MoveVersion: true, MakeDefault: new(bool)})
	if err != nil || moved.GetPack().GetDigest() == first.GetPack().GetDigest() {
		t.Fatalf("RegisterPack of other bytes: %v, %v", moved, err)
	}
	for _, ref := range []string{"loop@1.0.0", moved.GetPack().GetDigest()} {
		got, err := r.packs.GetPack(ctx, &pawlv1.GetPackRequest{Pack: ref, IncludeContent: true})
		if err != nil || !bytes.Equal(got.GetContent(), other) || got.GetTermination() == nil {
			t.Fatalf("GetPack %s: %v, %v", ref, got, err)
		}
	}
	page, err := r.packs.ListPacks(ctx, &pawlv1.ListPacksRequest{PageSize: 1})
	if err != nil || len(page.GetPacks()) != 1 || page.GetPacks()[0].GetName() != "Loop" ||
		page.GetPacks()[0].GetSizeBytes() != int64(len(other)) {
		t.Fatalf("ListPacks %v, %v", page, err)
	}
}

// TestGetPackTools: GetPack returns the tools of a pack, with the prompts that may call them and the settings
// of their calls.
func TestGetPackTools(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	held := `"tools":{"write_file":{"approve":"payload.size > 10.0","dedupe":["/path"],"max_calls":3,"cost":0.5,"timeout_sec":7,"attempts":2,"on_unknown":"retry"}}`
	if _, err := r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: controlled("tooled", held)}); err != nil {
		t.Fatal(err)
	}
	got, err := r.packs.GetPack(ctx, &pawlv1.GetPackRequest{Pack: "tooled"})
	want := []*pawlv1.PackTool{
		{
			Name: "run_tests", Description: "Runs tests", Prompts: []string{"worker"}, Approve: "never", Timeout: durationpb.New(300 * time.Second),
			Attempts: 1, OnError: "return", OnUnknown: "return",
		},
		{
			Name: "write_file", Description: "Writes a file", Prompts: []string{"worker"}, Approve: "payload.size > 10.0", ApprovalTimeout: durationpb.New(24 * time.Hour),
			OnTimeout: "deny", Dedupe: []string{"/path"}, MaxCalls: 3, CostMicroUsd: 500_000, Timeout: durationpb.New(7 * time.Second), Attempts: 2,
			OnError: "return", OnUnknown: "retry",
		},
	}
	if err != nil || !proto.Equal(&pawlv1.GetPackResponse{Tools: got.GetTools()}, &pawlv1.GetPackResponse{Tools: want}) {
		t.Fatalf("GetPack tells %v, %v, want %v", got.GetTools(), err, want)
	}
}

func TestGetPackGraph(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	graph, err := r.packs.GetPackGraph(ctx, &pawlv1.GetPackGraphRequest{Pack: "loop"})
	if err != nil || graph.GetEntry() != "work" || len(graph.GetNodes()) != 5 || !graph.GetNodes()[0].GetEntry() || graph.GetNodes()[0].GetDescription() != "Does it" {
		t.Fatalf("GetPackGraph %v, %v", graph, err)
	}
	if node := graph.GetNodes()[0]; !slices.Equal(node.GetTools(), []string{"run_tests", "write_file"}) || node.GetSkills() != "" {
		t.Fatalf("tools %v, skills %q", node.GetTools(), node.GetSkills())
	}
	kinds := map[pawlv1.EdgeKind]int{}
	for _, e := range graph.GetEdges() {
		kinds[e.GetKind()]++
	}
	if kinds[pawlv1.EdgeKind_EDGE_KIND_EVENT] != 11 || kinds[pawlv1.EdgeKind_EDGE_KIND_MAX_VISITS] != 1 || kinds[pawlv1.EdgeKind_EDGE_KIND_TIMEOUT] != 1 {
		t.Fatalf("edges %v", kinds)
	}
	if !strings.Contains(graph.GetMermaid(), "gate") || !strings.Contains(graph.GetDot(), "digraph") {
		t.Fatalf("drawings %q, %q", graph.GetMermaid(), graph.GetDot())
	}
	agent, err := r.packs.GetPackGraph(ctx, &pawlv1.GetPackGraphRequest{Pack: "loop", Agent: "approver"})
	if err != nil || len(agent.GetNodes()) != 1 || !agent.GetNodes()[0].GetTerminal() || strings.Contains(agent.GetMermaid(), "gate") {
		t.Fatalf("GetPackGraph of an agent: %v, %v", agent, err)
	}
	_, err = r.packs.GetPackGraph(ctx, &pawlv1.GetPackGraphRequest{Pack: "loop", Agent: "nobody"})
	st := wantError(t, err, codes.InvalidArgument, "NO_SUCH_ENTRY")
	if !strings.Contains(st.Message(), "approver, worker") {
		t.Fatalf("no agents in %q", st.Message())
	}
}

func TestBadPacks(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	tests := []struct {
		name    string
		content []byte
		field   string
	}{
		{"with errors", bytes.Replace(loopPack, []byte(`"Approved": "done"`), []byte(`"Approved": "nowhere"`), 1), "content/workflow/states/gate/on_event/Approved"},
		{"truncated YAML", []byte("id: loop\nprompts:\n  worker: {system_template: \"x"), "content"},
		{"invalid UTF-8", []byte("id: \xff\xfe"), "content"},
		{"not a pack", []byte("[1, 2]"), "content"},
		{"nesting", bytes.Repeat([]byte("["), 100_000), "content"},
		{"too large", bytes.Repeat([]byte(" "), 256<<10+1), "content"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := r.packs.ValidatePack(ctx, &pawlv1.ValidatePackRequest{Content: tt.content})
			if err != nil || got.GetOk() || len(got.GetDiagnostics()) == 0 || got.GetDiagnostics()[0].GetCode() == "" {
				t.Fatalf("ValidatePack %v, %v", got, err)
			}
			_, err = r.packs.RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: tt.content})
			st := wantError(t, err, codes.InvalidArgument, "PACK_INVALID")
			bad, ok := detail[*errdetails.BadRequest](st)
			if !ok || !strings.HasPrefix(bad.GetFieldViolations()[0].GetField(), tt.field) || bad.GetFieldViolations()[0].GetReason() == "" {
				t.Fatalf("BadRequest %v", bad)
			}
		})
	}
	t.Cleanup(func() {
		if n := r.store.Commits(); n != 0 {
			t.Errorf("%d commits", n)
		}
	})
}

func TestSettings(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	got, err := r.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: turn.GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"parameters":{"temperature":0.2}`, `"tool_policy":`, `"skills":["./skills/review",{`, `"id":"packs"`, `"type":"regex"`} {
		if !strings.Contains(got.GetSettingsJson(), part) {
			t.Errorf("no %s in %s", part, got.GetSettingsJson())
		}
	}
	if strings.Count(got.GetSettingsJson(), `"id":"own"`) != 1 {
		t.Errorf("the prompt's eval does not replace the pack's: %s", got.GetSettingsJson())
	}
	r.emit(ctx, got.GetTurn(), "Ask")
	got, err = r.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: turn.GetRunId()})
	if err != nil || strings.Contains(got.GetSettingsJson(), `"skills"`) || !strings.Contains(got.GetSettingsJson(), `"skills_filter":"none"`) || !strings.Contains(got.GetSettingsJson(), `"orchestration":"external"`) || got.GetAllowedEvents() != nil || got.GetTerminal() {
		t.Fatalf("settings %v, %v", got, err)
	}
}

// TestSkillFilterIsHandedOn: a filter keeps the skill sources that it names, that are below it, or that it is
// below. An empty filter keeps all sources, "none" keeps no source.
func TestSkillFilterIsHandedOn(t *testing.T) {
	t.Parallel()
	sources := []json.RawMessage{
		json.RawMessage(`"./skills/"`), json.RawMessage(`{"path":"./other","preload":true}`),
		json.RawMessage(`{"name":"tone","description":"d","instructions":"i"}`),
	}
	for filter, want := range map[string]string{
		"": "012", "none": "", "./skills": "0", "./skills/billing": "0", "./other": "1", "tone": "2", "./nowhere": "", ".": "01",
	} {
		got := ""
		for _, kept := range convert.FilterSkills(sources, filter) {
			got += fmt.Sprint(slices.IndexFunc(sources, func(s json.RawMessage) bool { return string(s) == string(kept) }))
		}
		if got != want {
			t.Errorf("filter %q keeps %q, want %q", filter, got, want)
		}
	}
}

func TestFilterSkills(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"skills": true, "skills/a": true, "skills-b": false, "": false} {
		if convert.IsInside(path, "skills/") != want {
			t.Errorf("within(%q) = %v", path, !want)
		}
	}
}
