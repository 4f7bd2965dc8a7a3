package pack

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestDiagramExamples(t *testing.T) {
	t.Parallel()
	for name, src := range examples(t) {
		d := mustLoad(t, src).Diagram()
		raw, err := json.MarshalIndent(d, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "diagrams/"+name+".json", append(raw, '\n'))
		golden(t, "diagrams/"+name+".mmd", []byte(d.Mermaid()))
		golden(t, "diagrams/"+name+".dot", []byte(d.DOT()))
	}
}

// hostile are names that try to break out of a diagram.
var hostile = []string{
	`a"]; n9 --> n8; x["`, "end", "n0", "a\nb", `a\`, `\n\l`, "<script>alert(1)</script>", "`x`", "#quot;", "%%{init: {}}%%",
	"click n0 href", "A-->B", "a;b", "}}", "é漢", "agent:b", "", strings.Repeat("x", 500), "\u202e", "a&b", "|x|", "style n0 fill:#f00",
}

func hostilePack(t *testing.T) *Pack {
	t.Helper()
	states := map[string]any{}
	for i, name := range hostile {
		next := hostile[(i+1)%len(hostile)]
		states[name] = map[string]any{"prompt_task": "a", "on_event": map[string]string{name: next}, "max_visits": 2, "on_max_visits": "e"}
	}
	states["e"] = map[string]any{"prompt_task": "b", "terminal": true}
	raw, err := json.Marshal(map[string]any{"version": 2, "entry": "n0", "states": states})
	if err != nil {
		t.Fatal(err)
	}
	return mustLoad(t, changed(t, `prompts.a.tools = ["b"]
agents = {"entry":"b","members":{"b":{}}}
workflow = `+string(raw)))
}

var (
	mermaidLine = regexp.MustCompile(`^(flowchart TD|  n\d+(\[|\(\[|\{\{)"[^"<>` + "`" + `\n]*(<br/>[^"<>\n]*)*"(\]|\]\)|\}\})|  start\(\( \)\) --> n\d+|  n\d+ (-->|-\.->)\|"[^"<>|\n]*"\| n\d+)$`)
	dotString   = regexp.MustCompile(`"(\\[\\"n]|[^"\\\n])*"`)
	dotLine     = regexp.MustCompile(`^(digraph S \{|  rankdir=TB;|  node \[shape=box, style=rounded\];|  n\d+ \[label=S(, shape=hexagon|, peripheries=2)?\];|  start \[shape=point\];|  start -> n\d+;|  n\d+ -> n\d+ \[label=S(, style=dashed)?\];|\})$`)
)

// TestDiagramInjection: whatever the names are, every line has the form of a
// node or an edge, and there are as many as there should be.
func TestDiagramInjection(t *testing.T) {
	t.Parallel()
	d := hostilePack(t).Diagram()
	lines := strings.Split(strings.TrimSuffix(d.Mermaid(), "\n"), "\n")
	if want := 1 + len(d.Nodes) + 1 + len(d.Edges); len(lines) != want {
		t.Errorf("%d lines of Mermaid, want %d", len(lines), want)
	}
	for _, line := range lines {
		if !mermaidLine.MatchString(line) {
			t.Errorf("Mermaid: %q", line)
		}
	}
	lines = strings.Split(strings.TrimSuffix(d.DOT(), "\n"), "\n")
	if want := 4 + len(d.Nodes) + 2 + len(d.Edges); len(lines) != want {
		t.Errorf("%d lines of DOT, want %d", len(lines), want)
	}
	for _, line := range lines {
		if !dotLine.MatchString(dotString.ReplaceAllString(line, "S")) {
			t.Errorf("DOT: %q", line)
		}
	}
	raw, err := json.Marshal(d)
	var back Diagram
	if err != nil || json.Unmarshal(raw, &back) != nil || len(back.Nodes) != len(hostile)+2 {
		t.Errorf("JSON: %v, %d nodes", err, len(back.Nodes))
	}
}

func TestDiagramIsDeterministic(t *testing.T) {
	t.Parallel()
	p := hostilePack(t)
	mermaid, dot := p.Diagram().Mermaid(), p.Diagram().DOT()
	for range 5 {
		if p.Diagram().Mermaid() != mermaid || p.Diagram().DOT() != dot {
			t.Fatal("differs from call to call")
		}
	}
}

func TestDiagramSettings(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, changed(t, `workflow.states.s.orchestration = "hybrid"
workflow.engine.x_pawl = {"max_iterations":{"s":{"Again":2}},"timeouts":{"s":{"after_sec":60,"event":"Go"}}}
prompts.a.tools = ["t","b"]
agents = {"entry":"b","members":{"b":{},"a":{"state":"s"}}}`))
	m := p.Diagram().Mermaid()
	for _, want := range []string{
		`-->|"Again (max 2)"|`, `-->|"Go (after 60 s)"|`, `-.->|"on max_visits"|`, `-.->|"delegates"|`, `-.->|"starts"|`, `s<br/>prompt: a<br/>max_visits: 5<br/>hybrid`,
	} {
		if !strings.Contains(m, want) {
			t.Errorf("no %s in\n%s", want, m)
		}
	}
}
