package pack

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// y is a pack in YAML; cases append to it.
const yamlBase = `id: p
name: P
version: 1.0.0
template_engine: {version: v1, syntax: "{{variable}}"}
prompts:
  a: {id: a, name: A, version: 1.0.0, system_template: Hi}
workflow:
  version: 2
  entry: s
  states:
    s: {prompt_task: a, terminal: true}
`

// readRuleCases are documents that cannot be read; change is the document.
var readRuleCases = []ruleCase{
	{source.CodeSize, e, "1:1", strings.Repeat(" ", 1<<20+1), "1048577 bytes; the limit is 1048576"},
	{source.CodeUTF8, e, "2:3", "id: p\nna\xffme: x", "0xff at offset 8"},
	{source.CodeUTF8, e, "1:3", "{\"\xc3\x28\":1}", "0xc3"},
	{source.CodeDepth, e, "1:65", strings.Repeat("[", 1<<20), "64 deep"},
	{source.CodeDepth, e, "1:321", strings.Repeat(`{"a":`, 100), "64 deep"},
	{source.CodeDepth, e, "1:67", "a: " + strings.Repeat("[", 100), "64 deep"},
	{source.CodeDepth, e, "1:129", strings.Repeat("- ", 5000) + "a", "64 deep"},
	{source.CodeDepth, e, "1:129", strings.Repeat("? ", 5000) + "a", "64 deep"},
	{source.CodeDepth, e, "", indented(70), "64 deep"},
	{source.CodeDepth, e, "", nestedAliases(70), "64 deep (aliases expanded)"},
	{source.CodeScalar, e, "1:7", `{"id":"` + strings.Repeat("x", 300_000) + `"}`, "300000 bytes"},
	{source.CodeScalar, e, "1:7", `{"id":` + strings.Repeat("1", 300_000) + `}`, "300000 bytes"},
	{source.CodeScalar, e, "1:5", "id: " + strings.Repeat("x", 300_000), "300000 bytes"},
	{source.CodeScalar, e, "1:5", "id: '" + strings.Repeat("x\n\n ", 100_000) + "'", "limit for one string"},
	{source.CodeScalar, e, "1:5", "id: |\n" + strings.Repeat("  x\n", 100_000), "limit for one string"},
	{source.CodeScalar, e, "", "id:\n" + strings.Repeat("  xxxxxxxx\n", 60_000), "limit for one string"},
	{source.CodeNodes, e, "", `{"a":[` + strings.Repeat("1,", 200_000) + `1]}`, "100000 values"},
	{source.CodeNodes, e, "", "a:\n" + strings.Repeat("- 1\n", 150_000), "100000 values"},
	{source.CodeNodes, e, "", "a: [" + strings.Repeat("1,", 200_000) + "1]", "100000 values"},
	{source.CodeNodes, e, "", laughs(), "100000 values (aliases expanded)"},
	{source.CodeDuplicate, e, "1:9", `{"id":1,"id":2}`, `"id" is given twice`},
	{source.CodeDuplicate, e, "12:1", yamlBase + "id: q", "given twice"},
	{"PP0009-3", e, "", strings.Replace(yamlBase, "{prompt_task: a, terminal: true}", "{prompt_task: a, terminal: true, artifacts: {x: {type: a/b}, x: {type: a/b}}}", 1), "given twice"},
	{source.CodeSyntax, e, "1:6", `{"id"}`, "not valid JSON"},
	{source.CodeSyntax, e, "2:1", "{\"id\":1,\n", "ends in the middle"},
	{source.CodeSyntax, e, "1:10", `{"id":tru}`, "not valid JSON"},
	{source.CodeSyntax, e, "1:1", "a: b\n- c", "not valid YAML"},
	{source.CodeSyntax, e, "1:1", "a: *nope", "unknown anchor"},
	{source.CodeSyntax, e, "1:1", "\tid: x", "not valid YAML"},
	{source.CodeOneDoc, e, "1:10", `{"id":1} {"id":2}`, "exactly one pack"},
	{source.CodeOneDoc, e, "2:1", "id: a\n---\nid: b", "several YAML documents"},
	{source.CodeOneDoc, e, "1:1", `[{"id":1}]`, "is a list"},
	{source.CodeOneDoc, e, "1:1", "- id: a", "is a list"},
	{ruleResource, e, "1:1", "apiVersion: promptkit.altairalabs.ai/v1alpha1\nkind: PromptConfig\nmetadata: {name: x}", "authoring resource"},
	{source.CodeNotJSON, e, "1:4", "a: .nan", "no form in JSON"},
	{source.CodeNotJSON, e, "1:4", "a: -.inf", "no form in JSON"},
	{source.CodeNotJSON, e, "1:1", "1: x", "not a string"},
	{source.CodeNotJSON, e, "1:1", "true: x", "not a string"},
	{source.CodeNotJSON, e, "1:1", "~: x", "not a string"},
	{source.CodeNotJSON, e, "1:3", "? [a]\n: x", "a key is a collection"},
	{source.CodeNotJSON, e, "2:5", "a: &a {x: 1}\nb: {<<: *a}", "merge keys"},
	{source.CodeNotJSON, e, "1:4", "a: !foo x", "tag"},
	{source.CodeNotJSON, e, "1:4", "a: !!binary aGk=", "tag"},
	{source.CodeNotJSON, e, "1:8", "a: &a [*a]", "contains itself"},
	{source.CodeNotJSON, e, "1:7", `{"id":"\ud800"}`, "lone surrogate"},
	{source.CodeNotJSON, e, "1:7", `{"id":"\udc00x"}`, "lone surrogate"},
	{source.CodeNotJSON, e, "1:7", `{"id":"\ud800\u0041"}`, "lone surrogate"},
	{source.CodeNotJSON, e, "1:2", `{"\ud800":1}`, "lone surrogate"},
	{source.CodeNumber, e, "1:7", `{"id":1e400}`, "floating point"},
	{source.CodeNumber, e, "1:7", `{"id":1e300}`, "9007199254740992"},
	{source.CodeNumber, e, "1:7", `{"id":-9007199254740993}`, "9007199254740992"},
	{source.CodeNumber, e, "1:7", `{"id":9007199254740993.0}`, "9007199254740992"},
	{source.CodeNumber, e, "1:5", "id: 9007199254740993", "9007199254740992"},
	{source.CodeNumber, e, "1:7", `{"id":0.1234567890123456789012}`, "it is 0.12345678901234568 as"},
	{source.CodeNumber, e, "1:5", "id: +0.1234567890123456789012", "it is 0.12345678901234568 as"},
	{source.CodeNumber, e, "1:7", `{"id":1e-400}`, "it is 0 as"},
	{source.CodeNumber, e, "1:5", "id: 0xffffffffffffff", "9007199254740992"},
	{source.CodeRoot, e, "1:1", "", "empty"},
	{source.CodeRoot, e, "1:1", "# nothing\n", "empty"},
	{source.CodeRoot, e, "1:1", "just text", "not an object"},
	{ruleAgents, e, "", manyAgents(), "limit is 256"},
	{ruleMore, w, "", unknownNames(300), "105 more findings"},
}

// indented is block YAML of n levels.
func indented(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%sa:\n", strings.Repeat(" ", i))
	}
	return b.String()
}

// nestedAliases is n levels deep only when its aliases are expanded.
func nestedAliases(n int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d]\n", i, i, i-1)
	}
	return b.String()
}

// laughs is the billion laughs: ten aliases of ten aliases of ...
func laughs() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	return b.String()
}

// unknownNames is an object of n members that no pack has.
func unknownNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"x%d":1`, i)
	}
	return "{" + b.String()[1:] + "}"
}

func manyAgents() string {
	var prompts, states, members strings.Builder
	for i := range 258 {
		fmt.Fprintf(&prompts, `,"p%d":{"id":"p%d","name":"P","version":"1.0.0","system_template":"x"}`, i, i)
		fmt.Fprintf(&states, `,"s%d":{"prompt_task":"a","terminal":true}`, i)
		fmt.Fprintf(&members, `,"p%d":{"state":"s%d"}`, i, i)
	}
	return `{"id":"p","name":"P","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
		"prompts":{` + prompts.String()[1:] + `},"agents":{"entry":"p0","members":{` + members.String()[1:] + `}},
		"workflow":{"version":2,"entry":"s0","states":{` + states.String()[1:] + `}}}`
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	for i, c := range readRuleCases {
		t.Run(fmt.Sprintf("%s_%d", c.code, i), func(t *testing.T) {
			t.Parallel()
			p, ds, err := Load([]byte(c.change), Options{})
			if err != nil || p != nil {
				t.Fatalf("%v %v", p, err)
			}
			for _, d := range ds {
				at := fmt.Sprintf("%d:%d", d.Line, d.Column)
				if d.Code == c.code && d.Severity == c.sev && (c.pointer == "" || c.pointer == at) && strings.Contains(d.Message, c.text) {
					return
				}
			}
			t.Errorf("no %s at %s with %q in:\n%.2000s", c.code, c.pointer, c.text, render(ds))
		})
	}
}

// TestYAMLAndJSONAreOne: the same content has the same digest in every writing.
func TestYAMLAndJSONAreOne(t *testing.T) {
	t.Parallel()
	load := func(src string) string {
		t.Helper()
		p, ds, err := Load([]byte(src), Options{})
		if p == nil {
			t.Fatalf("%v\n%s", err, render(ds))
		}
		return p.Digest
	}
	want := load(yamlBase)
	json := `{"workflow":{"states":{"s":{"terminal":true,"prompt_task":"\u0061"}},"entry":"s","version":2.0},
		"prompts":{"a":{"system_template":"Hi","version":"1.0.0","name":"A","id":"a"}},
		"template_engine":{"syntax":"{{variable}}","version":"v1"},"version":"1.0.0","name":"P","id":"p"}`
	for name, src := range map[string]string{
		"json": json, "bom": "\xef\xbb\xbf" + yamlBase, "crlf": strings.ReplaceAll(yamlBase, "\n", "\r\n"),
		"marker": "---\n" + yamlBase + "...\n", "comments": "# c\n" + strings.ReplaceAll(yamlBase, "\n", " # c\n"),
		"alias":  strings.Replace(yamlBase, "version: 1.0.0\nt", "version: &v 1.0.0\nt", 1),
		"anchor": strings.Replace(strings.Replace(yamlBase, "id: p", "id: &x p", 1), "name: P", "name: 'P'", 1),
		"tag":    strings.Replace(yamlBase, "name: P", "name: !!str P", 1),
	} {
		if got := load(src); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if load(strings.Replace(yamlBase, "name: P", "name: Q", 1)) == want {
		t.Error("another name has the same digest")
	}
}

// TestScannerTakesOrdinaryYAML: text full of brackets, quotes and dashes is no
// structure.
func TestScannerTakesOrdinaryYAML(t *testing.T) {
	t.Parallel()
	texts := []string{
		strings.Repeat("[{", 200), strings.Repeat("- ", 200), strings.Repeat("'", 201), strings.Repeat("\"", 201),
		strings.Repeat("a: ", 200), strings.Repeat("# ", 200), strings.Repeat("| ", 200), "it's", "&a *b !c",
	}
	for _, text := range texts {
		for name, src := range map[string]string{
			"literal":  "description: |\n  " + text + "\n  " + text + "\n" + yamlBase,
			"folded":   "description: >-\n    " + text + "\n\n    " + text + "\n" + yamlBase,
			"single":   "description: '" + strings.ReplaceAll(text, "'", "''") + "\n   more'\n" + yamlBase,
			"double":   "description: \"" + strings.ReplaceAll(text, `"`, `\"`) + "\n   more\"\n" + yamlBase,
			"comment":  "# " + text + "\n" + yamlBase + "   # " + text + "\n",
			"continue": "description: x\n  y " + strings.ReplaceAll(strings.ReplaceAll(text, ": ", ":"), " #", "#") + "\n  z\n" + yamlBase,
			"flow":     "metadata: {x: 'a', y: [b, \"c\"]}\ndescription: |\n " + text + "\n" + yamlBase,
		} {
			if name == "continue" && (strings.HasPrefix(text, "a: ") || strings.HasPrefix(text, "# ")) {
				continue // not YAML there
			}
			if p, ds, err := Load([]byte(src), Options{}); p == nil {
				t.Errorf("%s %.12q: %v\n%s", name, text, err, render(ds))
			}
		}
	}
}

// TestDepthIsExact: 64 levels are allowed in both formats, 65 are not.
func TestDepthIsExact(t *testing.T) {
	t.Parallel()
	for _, n := range []int{64, 65} {
		deep := strings.Repeat("[", n-2) + strings.Repeat("]", n-2)
		block := "metadata:\n"
		for i := 2; i < n; i++ {
			block += strings.Repeat(" ", i) + "a:\n"
		}
		block += strings.Repeat(" ", n) + "a: b\n"
		for name, src := range map[string]string{
			"json":  strings.Replace(base, `"name":"P",`, `"name":"P","metadata":{"x":`+deep+`},`, 1),
			"flow":  yamlBase + "metadata: {x: " + deep + "}\n",
			"block": yamlBase + block,
		} {
			if p, ds, _ := Load([]byte(src), Options{}); (p != nil) != (n == 64) {
				t.Errorf("%s with %d levels: %v", name, n, render(ds))
			}
		}
	}
}

func TestPositions(t *testing.T) {
	t.Parallel()
	src := "{\n \"id\": \"p\",\n \"näme\": 1, \"version\": 7}"
	_, ds, _ := Load([]byte(src), Options{})
	want := map[string]string{"/näme": "3:2", "/version": "3:24"}
	for _, d := range ds {
		if at, ok := want[d.Pointer]; ok && d.Severity == SeverityError {
			if got := fmt.Sprintf("%d:%d", d.Line, d.Column); got != at {
				t.Errorf("%s at %s, want %s", d.Pointer, got, at)
			}
			delete(want, d.Pointer)
		}
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v\n%s", want, render(ds))
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	if _, _, err := Load([]byte(base), Options{Strict: "2.0.0"}); err == nil || !strings.Contains(err.Error(), "1.4.0, 1.5.0, 1.5.1, 1.6.0") {
		t.Errorf("unknown schema: %v", err)
	}
	if _, _, err := Load([]byte(base), Options{Limits: Limits{Depth: -1}}); err == nil {
		t.Error("negative limit was taken")
	}
	if p, ds, _ := Load([]byte(base), Options{Limits: Limits{Nodes: 10}}); p != nil || ds[0].Code != source.CodeNodes {
		t.Errorf("own limit: %v", ds)
	}
}
