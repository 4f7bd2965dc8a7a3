package diagram

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack"
)

var rewrite = flag.Bool("rewrite", false, "accept the drawings as they are")

// document is a pack with gaps for the tools of the prompt a, the workflow and the agents.
const document = `{"id":"p","name":"P","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
 "prompts":{"a":{"id":"a","name":"A","version":"1.0.0","system_template":"Hi","tools":%s},
  "b":{"id":"b","name":"B","version":"1.0.0","system_template":"Bye"}},
 "tools":{"t":{"name":"t","description":"T"}},"workflow":%s,"agents":{"entry":"b","members":%s}}`

func mustLoad(t testing.TB, src string) *pack.Pack {
	t.Helper()
	p, found, err := pack.Load([]byte(src), pack.Options{})
	if err != nil || p == nil {
		t.Fatalf("%v %v", found, err)
	}
	return p
}

func loadFile(t testing.TB, path string) *pack.Pack {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return mustLoad(t, string(content))
}

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs (%v; see -rewrite); got\n%s", path, err, got)
	}
}

func TestDiagramExamples(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../testdata/packs/*")
	if err != nil || len(paths) != 11 {
		t.Fatalf("example packs: %v, %v", paths, err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		d := Of(loadFile(t, path))
		raw, err := json.MarshalIndent(d, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", append(raw, '\n'))
		golden(t, name+".mmd", []byte(d.Mermaid()))
		golden(t, name+".dot", []byte(d.DOT()))
	}
}

// hostile are names that try to break out of a diagram.
var hostile = []string{
	`a"]; n9 --> n8; x["`, "end", "n0", "a\nb", `a\`, `\n\l`, "<script>alert(1)</script>", "`x`", "#quot;", "%%{init: {}}%%",
	"click n0 href", "A-->B", "a;b", "}}", "é漢", "agent:b", "", strings.Repeat("x", 500), "\u202e", "a&b", "|x|", "style n0 fill:#f00",
}

func hostilePack(t *testing.T) *pack.Pack {
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
	return mustLoad(t, fmt.Sprintf(document, `["b"]`, string(raw), `{"b":{}}`))
}

var (
	mermaidLine = regexp.MustCompile(`^(flowchart TD|  n\d+(\[|\(\[|\{\{)"[^"<>` + "`" + `\n]*(<br/>[^"<>\n]*)*"(\]|\]\)|\}\})|  start\(\( \)\) --> n\d+|  n\d+ (-->|-\.->)\|"[^"<>|\n]*"\| n\d+)$`)
	dotString   = regexp.MustCompile(`"(\\[\\"n]|[^"\\\n])*"`)
	dotLine     = regexp.MustCompile(`^(digraph S \{|  rankdir=TB;|  node \[shape=box, style=rounded\];|  n\d+ \[label=S(, shape=hexagon|, peripheries=2)?\];|  start \[shape=point\];|  start -> n\d+;|  n\d+ -> n\d+ \[label=S(, style=dashed)?\];|\})$`)
)

// TestDiagramInjection: names that try to break out of the diagram do not. Every line has the form of a node
// or an edge, and the number of lines is right.
func TestDiagramInjection(t *testing.T) {
	t.Parallel()
	d := Of(hostilePack(t))
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
	mermaid, dot := Of(p).Mermaid(), Of(p).DOT()
	for range 5 {
		if Of(p).Mermaid() != mermaid || Of(p).DOT() != dot {
			t.Fatal("differs from call to call")
		}
	}
}

func TestDiagramSettings(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, fmt.Sprintf(document, `["t","b"]`, `{"version":2,"entry":"s",
		"engine":{"x_pawl":{"max_iterations":{"s":{"Again":2}},"timeouts":{"s":{"after_sec":60,"event":"Go"}}}},
		"states":{"s":{"prompt_task":"a","orchestration":"hybrid","on_event":{"Go":"e","Again":"s"},"max_visits":5,"on_max_visits":"e"},
			"e":{"prompt_task":"b","terminal":true}}}`, `{"b":{},"a":{"state":"s"}}`))
	m := Of(p).Mermaid()
	for _, want := range []string{
		`-->|"Again (max 2)"|`, `-->|"Go (after 60 s)"|`, `-.->|"on max_visits"|`, `-.->|"delegates"|`, `-.->|"starts"|`, `s<br/>prompt: a<br/>max_visits: 5<br/>hybrid`,
	} {
		if !strings.Contains(m, want) {
			t.Errorf("no %s in\n%s", want, m)
		}
	}
}

// TestTools: a diagram has each tool and each agent that a prompt lists, and each tool that compensates one of
// them, once. Each has the pack's settings for its calls or the defaults. A blocked tool does not belong to
// its prompt.
func TestTools(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, `{"id":"p","name":"P","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
 "prompts":{"a":{"id":"a","name":"A","version":"1.0.0","system_template":"Hi","tools":["pay","look","b"],"tool_policy":{"blocklist":["look"]}},
  "b":{"id":"b","name":"B","version":"1.0.0","system_template":"Bye","tools":["look"]}},
 "tools":{"pay":{"name":"pay","description":"Pays","parameters":{"type":"object","properties":{"order":{"type":"string"}},"required":["order"]}},
  "look":{"name":"look","description":"Looks"},"undo":{"name":"undo","description":"Undoes"}},
 "agents":{"entry":"b","members":{"b":{"description":"An agent"}}},
 "workflow":{"version":2,"entry":"s","states":{"s":{"prompt_task":"a","on_event":{"Go":"e"},"artifacts":{"receipt":{"type":"application/json"}}},"e":{"prompt_task":"b","terminal":true}},
  "engine":{"x_pawl":{"sensitive":{"tools":["pay"]},"result_bindings":{"pay":"receipt"},"tools":{
   "pay":{"approve":"payload.amount > 5.0","approval":{"timeout_sec":60,"on_timeout":"escalate","not_starter":true},"dedupe":["order"],"max_calls":2,"cost":0.25,
    "timeout_sec":9,"attempts":3,"on_error":"escalate","on_unknown":"retry","compensate":"undo"},
   "b":{"approve":"always"}}}}}}`)
	d := Of(p)
	want := []Tool{
		{Name: "b", Kind: NodeAgent, Description: "An agent", Prompts: []string{"a"}, Approve: "always", ApprovalTimeoutSec: 86400, OnTimeout: "deny", TimeoutSec: 86400, Attempts: 1, OnError: "return", OnUnknown: "return"},
		{Name: "look", Kind: KindTool, Description: "Looks", Prompts: []string{"b"}, Approve: "never", TimeoutSec: 300, Attempts: 1, OnError: "return", OnUnknown: "return"},
		{
			Name: "pay", Kind: KindTool, Description: "Pays", Prompts: []string{"a"}, Approve: "payload.amount > 5.0", ApprovalTimeoutSec: 60, OnTimeout: "escalate", NotStarter: true,
			Dedupe: []string{"/order"}, MaxCalls: 2, CostMicroUSD: 250_000, TimeoutSec: 9, Attempts: 3, OnError: "escalate", OnUnknown: "retry", Compensate: "undo",
			ResultArtifact: "receipt", Sensitive: true,
		},
		{Name: "undo", Kind: KindTool, Description: "Undoes", Prompts: []string{}, Approve: "never", TimeoutSec: 300, Attempts: 1, OnError: "return", OnUnknown: "return"},
	}
	if !reflect.DeepEqual(d.Tools, want) {
		t.Errorf("tools are\n%+v\nwant\n%+v", d.Tools, want)
	}
	for _, n := range d.Nodes {
		want := map[string][]string{"s": {"b", "pay"}, "e": {"look"}, "agent:b": {"look"}}[n.ID]
		if !reflect.DeepEqual(n.Tools, want) {
			t.Errorf("%s calls %v, want %v", n.ID, n.Tools, want)
		}
	}
}
