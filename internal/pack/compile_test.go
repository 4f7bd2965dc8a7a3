package pack

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// golden compares with testdata/name, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (see -rewrite); got\n%s", path, got)
	}
}

func mustLoad(t testing.TB, src []byte) *Pack {
	t.Helper()
	p, ds, err := Load(src, Options{})
	if p == nil {
		t.Fatalf("%v\n%s", err, render(ds))
	}
	return p
}

// TestCompileExamples pins the graph of every entry of the example packs.
func TestCompileExamples(t *testing.T) {
	t.Parallel()
	for name, src := range examples(t) {
		p := mustLoad(t, src)
		graphs := map[string]*machine.Graph{}
		if p.Doc.Workflow != nil {
			graphs["workflow"], _ = p.Compile(Entry{})
		}
		for _, m := range p.Members() {
			g, err := p.Compile(Entry{Agent: m})
			if err != nil {
				t.Fatal(err)
			}
			graphs["agent "+m] = g
		}
		for _, g := range graphs {
			checkGraph(t, g)
		}
		raw, err := json.MarshalIndent(graphs, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "graphs/"+name+".golden.json", append(raw, '\n'))
	}
}

// checkGraph fails unless the graph contains everything that it names.
func checkGraph(t testing.TB, g *machine.Graph) {
	t.Helper()
	if g.States[g.Entry] == nil {
		t.Fatalf("no entry %q", g.Entry)
	}
	for name, n := range g.States {
		if n.Name != name || g.Prompts[n.Prompt] == nil {
			t.Fatalf("state %q: %+v", name, n)
		}
		for event, to := range n.OnEvent {
			if !n.Terminal && g.States[to] == nil {
				t.Fatalf("%s.%s leads to %q", name, event, to)
			}
		}
		if n.OnMaxVisits != "" && g.States[n.OnMaxVisits] == nil {
			t.Fatalf("%s: forced exit to %q", name, n.OnMaxVisits)
		}
		for _, a := range n.Artifacts {
			if _, ok := g.Artifacts[a]; !ok {
				t.Fatalf("%s declares %q", name, a)
			}
		}
		for tool := range g.Prompts[n.Prompt].Tools {
			if tl, ok := g.Tools[tool]; !ok || tl.Timeout <= 0 || tl.Attempts < 1 {
				t.Fatalf("tool %q: %+v", tool, tl)
			}
		}
	}
	if g.Retry.MaxAttempts < 1 || g.Retry.Initial <= 0 || g.Retry.Max < g.Retry.Initial || g.Lease < 0 || g.MaxPendingSteps < 1 {
		t.Fatalf("settings: %+v", g)
	}
}

func TestCompileXPawl(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, changedPack(t, `prompts.b.tools = ["b2","t"]
prompts.b.tool_policy = {"blocklist":["t"],"max_tool_calls_per_turn":3}
prompts.b2 = {"id":"b2","name":"B","version":"1.0.0","system_template":"x"}
prompts.b.model_overrides = {"gpt":{},"free":{}}
agents = {"entry":"b2","members":{"b2":{}}}
workflow.states.s.orchestration = "hybrid"
workflow.states.s.persistence = "persistent"
workflow.states.e.orchestration = "external"
workflow.states.e.artifacts = {"log":{"type":"application/json","mode":"append"}}
workflow.engine.budget = {"max_total_visits":9,"max_tool_calls":8,"max_wall_time_sec":7}
workflow.engine.x_pawl = {"max_iterations":{"s":{"Again":2}},"max_steps":5,"max_reframes":2,"max_tokens":1000,"max_cost_usd":0.0000015,"prices":{"gpt":{"input":2.007,"cached":0.0000001,"output":10},"free":{"input":0,"output":0,"reasoning":3}},"timeouts":{"s":{"after_sec":60,"event":"Go"}},"wall_time_excludes_waiting":true,"retry":{"max_attempts":4,"initial_sec":90},"model_calls":{"timeout_sec":5,"retry":{"initial_sec":0.2,"jitter":0},"on_unknown":"escalate"},"no_progress":{"window":4,"over":["tool_calls"]},"lease_sec":30,"max_pending_steps":2,"max_artifact_bytes":512,"max_run_artifact_bytes":4096,"result_bindings":{"t":"x"},"tools":{"b2":{"retry":2},"t":{"timeout_sec":10,"attempts":2,"retry":{"initial_sec":0.0015,"max_sec":4,"multiplier":1.5,"jitter":0.25,"non_retryable":["B","A"]},"on_error":"escalate","on_unknown":"retry"}}}`))
	g, err := p.Compile(Entry{})
	if err != nil {
		t.Fatal(err)
	}
	checkGraph(t, g)
	if want := (machine.Budget{MaxTotalVisits: 9, MaxToolCalls: 8, MaxWallTime: 7 * time.Second, MaxSteps: 5, MaxReframes: 2, MaxTokens: 1000, MaxCostMicroUSD: 2}); g.Budget != want {
		t.Errorf("budget %+v", g.Budget)
	}
	if want := map[string]machine.Price{
		"gpt": {Input: 2_007_000, Cached: 1, Output: 10_000_000, Reasoning: 10_000_000}, "free": {Reasoning: 3_000_000},
	}; !reflect.DeepEqual(g.Prices, want) {
		t.Errorf("prices %+v", g.Prices)
	}
	if want := []string{"free", "gpt"}; !slices.Equal(g.Prompts["b"].Models, want) || g.Prompts["a"].Models != nil {
		t.Errorf("models %v and %v", g.Prompts["b"].Models, g.Prompts["a"].Models)
	}
	named := mustLoad(t, changedPack(t, `prompts.b.model_overrides = {"gpt":{}}
workflow.engine.x_pawl = {"max_cost_usd":1,"models":{"b":"gpt","*":"free"}}`))
	if g, err := named.Compile(Entry{}); err != nil || g.Prompts["b"].Model != "gpt" || g.Prompts["a"].Model != "free" || g.Prompts["b"].Models != nil {
		t.Errorf("%+v and %+v, %v", g.Prompts["b"], g.Prompts["a"], err)
	}
	if want := (machine.RetryPolicy{MaxAttempts: 4, Initial: 90 * time.Second, Max: 90 * time.Second}); !reflect.DeepEqual(g.Retry, want) {
		t.Errorf("retry %+v", g.Retry)
	}
	if g.Lease != 30*time.Second || g.MaxPendingSteps != 2 || g.MaxArtifactBytes != 512 || g.MaxRunArtifactBytes != 4096 || !g.WallExcludesWaiting {
		t.Errorf("settings %+v", g)
	}
	if want := (machine.NoProgress{Window: 4, ToolCalls: true}); g.NoProgress == nil || *g.NoProgress != want {
		t.Errorf("no_progress %+v", g.NoProgress)
	}
	s := g.States["s"]
	if s.Orchestration != machine.Hybrid || !s.Persistent || s.Timeout == nil || *s.Timeout != (machine.Timeout{After: time.Minute, Event: "Go"}) ||
		!reflect.DeepEqual(s.MaxIterations, map[string]int{"Again": 2}) {
		t.Errorf("state %+v", s)
	}
	if g.States["e"].Orchestration != machine.External || g.Artifacts["log"] != (machine.Artifact{Type: "application/json", Mode: machine.Append}) {
		t.Errorf("state e or artifact: %+v %+v", g.States["e"], g.Artifacts)
	}
	none, quarter, escalate := int64(0), int64(250_000), machine.Escalate
	if want := (&machine.Calls{
		Timeout: 5 * time.Second, Retry: machine.RetryPolicy{MaxAttempts: 3, Initial: 200 * time.Millisecond, Max: time.Minute, Jitter: &none}, OnUnknown: &escalate,
	}); !reflect.DeepEqual(g.ModelCalls, want) {
		t.Errorf("calls of models %+v", g.ModelCalls)
	}
	if want := (machine.Tool{Timeout: 10 * time.Second, Attempts: 2, OnError: machine.Escalate, OnUnknown: machine.Retry, OnUnknownSet: true, ResultArtifact: "x", Retry: &machine.RetryPolicy{
		Initial: 1500 * time.Microsecond, Max: 4 * time.Second, Multiplier: 1500, Jitter: &quarter, NonRetryable: []string{"A", "B"},
	}}); !reflect.DeepEqual(g.Tools["t"], want) {
		t.Errorf("tool %+v", g.Tools["t"])
	}
	if tl := g.Tools["b2"]; !tl.Agent || tl.Timeout != machine.DefaultDelegationTimeout || tl.Attempts != 2 || tl.OnError != machine.Return || tl.OnUnknown != machine.Return {
		t.Errorf("delegation %+v", tl)
	}
	if b := g.Prompts["b"]; !b.Blocklist["t"] || b.MaxToolCallsPerTurn != 3 || g.Prompts["a"].MaxToolCallsPerTurn != 0 {
		t.Errorf("prompt %+v", b)
	}
}

// TestCompileIsSound: what the checks let pass makes a graph that the machine
// takes, even where a terminal state's dead events lead to states that nothing
// else reaches, or where a binding means an artifact that the entry has not.
func TestCompileIsSound(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, changedPack(t, `workflow.states.e.terminal = true
workflow.states.e.on_event = {"Back":"far"}
workflow.states.far = {"prompt_task":"b","on_event":{"Go":"e"}}
workflow.engine.x_pawl = {"max_iterations":{"e":{"Back":2}},"timeouts":{"e":{"after_sec":9,"event":"Back"}},"result_bindings":{"t":"x"}}
prompts.b2 = {"id":"b2","name":"B","version":"1.0.0","system_template":"x","tools":["t"]}
agents = {"entry":"b2","members":{"b2":{}}}`))
	g, err := p.Compile(Entry{})
	if err != nil {
		t.Fatal(err)
	}
	if e := g.States["e"]; !e.Terminal || e.OnEvent != nil || e.MaxIterations != nil || e.Timeout != nil || g.States["far"] != nil {
		t.Errorf("terminal state %+v", e)
	}
	agent, err := p.Compile(Entry{Agent: "b2"})
	if err != nil || agent.Tools["t"].ResultArtifact != "" {
		t.Errorf("prompt-backed agent: %+v, %v", agent, err)
	}
	p.Doc.Workflow.States["s"].OnEvent["Nowhere"] = "absent"
	if _, err := p.Compile(Entry{}); err == nil || !strings.Contains(err.Error(), `no state "absent"`) {
		t.Errorf("an edge that leads nowhere: %v", err)
	}
}

func TestCompileToolPolicyDefault(t *testing.T) {
	t.Parallel()
	g, err := mustLoad(t, changedPack(t, `prompts.a.tool_policy = {"tool_choice":"auto"}`)).Compile(Entry{})
	if err != nil || g.Prompts["a"].MaxToolCallsPerTurn != 10 {
		t.Errorf("%+v %v", g, err)
	}
}

func TestCompileRetryNumber(t *testing.T) {
	t.Parallel()
	g, err := mustLoad(t, changedPack(t, `workflow.engine.x_pawl = {"retry":1}`)).Compile(Entry{})
	if want := (machine.RetryPolicy{MaxAttempts: 1, Initial: time.Second, Max: time.Minute}); err != nil || !reflect.DeepEqual(g.Retry, want) {
		t.Errorf("%+v %v", g.Retry, err)
	}
}

func TestCompileAgents(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, examples(t)["rfc0011-1-security-review.yaml"])
	g, err := p.Compile(Entry{Agent: "analyst"})
	if err != nil || g.Entry != "agent:analyst" || g.Agent != "analyst" || len(g.States) != 1 || !g.States[g.Entry].Terminal {
		t.Errorf("prompt-backed: %+v %v", g, err)
	}
	g, err = p.Compile(Entry{Agent: "triage"})
	if err != nil || g.Entry != "triage" || g.Agent != "triage" || len(g.States) != 3 {
		t.Errorf("state-backed: %+v %v", g, err)
	}
	g, err = p.Compile(Entry{State: "done"})
	if err != nil || g.Entry != "done" || g.Agent != "" || len(g.States) != 1 {
		t.Errorf("override: %+v %v", g, err)
	}
	g, err = mustLoad(t, examples(t)["rfc0007-3-vision-assistant.yaml"]).Compile(Entry{})
	if err != nil || g.Entry != "agent:coordinator" {
		t.Errorf("pack without a workflow: %+v %v", g, err)
	}
}

func TestStrict(t *testing.T) {
	t.Parallel()
	// What the published schemas make of the examples: names of tools have no spaces.
	const all = ""
	refused := map[string]string{
		"rfc0007-1-research-team.yaml":   all,
		"rfc0009-1-codegen-agent.yaml":   all,
		"rfc0009-2-data-explorer.yaml":   all,
		"rfc0009-4-ops-remediation.yaml": all,
		"rfc0011-1-security-review.yaml": "1.4.0",
	}
	for name, src := range examples(t) {
		for _, strict := range PublishedSchemas() {
			_, ds, err := Load(src, Options{Strict: strict})
			if err != nil {
				t.Fatal(err)
			}
			only, want := refused[name]
			want = want && (only == all || only == strict)
			if HasErrors(ds) != want {
				t.Errorf("%s under %s: refused %v, want %v\n%s", name, strict, !want, want, render(ds))
			}
		}
	}
	// Pawl's own rules still apply.
	_, ds, _ := Load(changedPack(t, `workflow.engine.budget.max_total_visits = "3"`), Options{Strict: Newest})
	if !HasErrors(ds) {
		t.Error("a budget of the wrong type passed the strict mode")
	}
}

// TestOutcomeOfATerminalState: if the pack declares that a terminal state fails, the graph says so. All other
// terminal states complete the run.
func TestOutcomeOfATerminalState(t *testing.T) {
	t.Parallel()
	for declared, want := range map[string]machine.Status{`{}`: machine.StatusUnset, `{"e":"completed"}`: machine.StatusUnset, `{"e":"failed"}`: machine.Failed} {
		g, err := mustLoad(t, changedPack(t, `workflow.engine.x_pawl = {"outcome":`+declared+`}`)).Compile(Entry{})
		if err != nil {
			t.Fatal(err)
		}
		if got := g.States["e"].Outcome; got != want {
			t.Errorf("%s: %s", declared, got)
		}
	}
}
