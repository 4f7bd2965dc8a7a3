package pack

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack/source"
	"github.com/pawl-dev/pawl/internal/prompt"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// featureBase is base with an agent, so that rows about agents change something.
const featureChange = `agents = {"entry":"b","members":{"b":{},"a":{"state":"s"}}}`

// graphs are the compiled entries of a pack without what every change changes.
func graphs(t *testing.T, p *Pack) map[string]*machine.Graph {
	t.Helper()
	out := map[string]*machine.Graph{}
	entries := map[string]Entry{"": {}}
	for _, m := range p.Members() {
		entries[m] = Entry{Agent: m}
	}
	for name, entry := range entries {
		g, err := p.Compile(entry)
		if err != nil {
			t.Fatal(err)
		}
		g.Digest = ""
		out[name] = g
	}
	return out
}

// keptInDocument: the change is kept in the document, causes no finding of ours and
// changes nothing that is enforced.
func keptInDocument(change, at string) featureTest {
	return featureTest{run: func(t *testing.T) {
		before := mustLoad(t, changedPack(t, featureChange))
		after, ds, _ := Load(changedPack(t, featureChange+"\n"+change), Options{})
		if after == nil {
			t.Fatal(render(ds))
		}
		for _, d := range ds {
			if !strings.HasPrefix(d.Code, schemaPrefix) {
				t.Errorf("finding: %v", d)
			}
		}
		if !reflect.DeepEqual(graphs(t, before), graphs(t, after)) {
			t.Error("the graphs differ")
		}
		root, f := source.ParseJSON(after.Canonical, func(source.DuplicateName) {})
		if f != nil {
			t.Fatal(f)
		}
		for _, tok := range source.PointerTokens(at) {
			if root, _, _ = root.Child(tok); root == nil {
				t.Fatalf("%s is not in the canonical form", at)
			}
		}
	}}
}

// altersGraph: the change reaches the compiled graph.
func altersGraph(change string) featureTest {
	return featureTest{run: func(t *testing.T) {
		before, after := mustLoad(t, changedPack(t, featureChange)), mustLoad(t, changedPack(t, featureChange+"\n"+change))
		if reflect.DeepEqual(graphs(t, before), graphs(t, after)) {
			t.Error("the graphs are the same")
		}
	}}
}

// addsEnforced: the change adds a validator that the sidecar enforces, without a finding.
func addsEnforced(change string) featureTest {
	return featureTest{run: func(t *testing.T) {
		before, after := mustLoad(t, changedPack(t, featureChange)), mustLoad(t, changedPack(t, featureChange+"\n"+change))
		if len(after.Validators("a")) != 1 || len(before.Validators("a")) != 0 || len(after.Warnings) != len(before.Warnings) {
			t.Errorf("validators: %v; warnings: %v", after.Validators("a"), after.Warnings)
		}
	}}
}

// causesFinding: the change causes the finding.
func causesFinding(code string, sev Severity, change string) featureTest {
	return featureTest{code: code, run: func(t *testing.T) {
		p, ds, _ := Load(changedPack(t, change), Options{})
		if (p == nil) != (sev == SeverityError) || !slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Code == code && d.Severity == sev }) {
			t.Errorf("no %s %s in\n%s", sev, code, render(ds))
		}
	}}
}

// doesNotStart: the change causes a warning, and a run that begins is refused for the same code.
func doesNotStart(code, change string) featureTest {
	return featureTest{code: code, run: func(t *testing.T) {
		causesFinding(code, w, change).run(t)
		var refused *UnsupportedError
		if err := mustLoad(t, changedPack(t, change)).Supports(Entry{}); !errors.As(err, &refused) || refused.Code != code {
			t.Errorf("supported, or refused for %v", err)
		}
	}}
}

// bindsKey: a bound key causes no finding, and the compiled prompt has it.
var bindsKey = featureTest{run: func(t *testing.T) {
	p, ds, err := Load(changedPack(t, featureChange+`
		requires = {"providers":["default",{"key":"k","role":"llm"}]}
		prompts.a.provider = "k"`), Options{Providers: []string{"k"}})
	if err != nil || slices.ContainsFunc(ds, func(d Diagnostic) bool { return !strings.HasPrefix(d.Code, schemaPrefix) }) {
		t.Fatalf("%v\n%s", err, render(ds))
	}
	if a := graphs(t, p)[""].Prompts["a"]; a.Provider != "k" || a.ProviderRole != "llm" {
		t.Errorf("%+v", a)
	}
}}

// addsEval: with the change an eval judges the turns of the prompt a.
func addsEval(change string) featureTest {
	return featureTest{run: func(t *testing.T) {
		if evals := mustLoad(t, changedPack(t, change)).Evals("a", EveryTurn); len(evals) != 1 || evals[0].ID != "x" {
			t.Errorf("evals %+v", evals)
		}
	}}
}

// startFails: with the change these variables are refused.
func startFails(change, variables, want string) featureTest {
	return featureTest{run: func(t *testing.T) {
		_, faults, err := mustLoad(t, changedPack(t, change)).CheckVariables(Entry{}, []byte(variables))
		if err != nil || len(faults) == 0 || !strings.Contains(faults[0].Error(), want) {
			t.Errorf("%v %v", faults, err)
		}
	}}
}

const (
	composed = `workflow.states.s.orchestration = "composition"
workflow.states.s.composition = "c"
workflow.states.s.prompt_task = -
compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t"}]}`
	variable = `prompts.a.variables.0 = {"name":"v","type":"string","required":false,`
)

// featureTest is the test of a row, and the code of what it finds.
type featureTest struct {
	code string
	run  func(*testing.T)
}

var featureTests = map[string]featureTest{
	"$schema |":             keptInDocument(`$schema = "https://example.org/x"`, "/$schema"),
	"id |":                  altersGraph(`id = "q"`),
	"name |":                keptInDocument(`name = "Q"`, "/name"),
	"version |":             altersGraph(`version = "2.0.0"`),
	"description |":         keptInDocument(`description = "d"`, "/description"),
	"metadata |":            keptInDocument(`metadata = {"domain":"x"}`, "/metadata/domain"),
	"metadata.governance |": causesFinding(ruleGovernance, w, `metadata = {"governance":{"requires_ai_disclosure":true}}`),
	"compilation |":         keptInDocument(`compilation = {"compiled_with":"x","created_at":"2026-01-01T00:00:00Z","schema":"y"}`, "/compilation/schema"),

	"template_engine.version |": keptInDocument(`template_engine.version = "v9"`, "/template_engine/version"),
	"template_engine.syntax | `{{variable}}`": {run: func(t *testing.T) {
		p := mustLoad(t, []byte(base))
		got, err := prompt.Render(p.Doc.Prompts["a"].SystemTemplate, prompt.Scope{
			Variables: map[string]any{"v": "{{v}}"}, Artifacts: map[string]any{"x": "X"}, Fragments: p.Doc.Fragments})
		if err != nil || got != "Hi {{v}} X text" {
			t.Errorf("%q %v", got, err)
		}
	}},
	"template_engine.syntax | any other":                         causesFinding(ruleSyntaxKind, e, `template_engine.syntax = "{variable}"`),
	"template_engine.features[] | basic_substitution, fragments": keptInDocument(`template_engine.features = ["basic_substitution","fragments"]`, "/template_engine/features"),
	"template_engine.features[] | conditionals, loops, filters":  causesFinding(ruleFeature, e, `template_engine.features = ["filters"]`),
	"fragments |":                                                       causesFinding(ruleFragment, e, `fragments = {}`),
	"prompts |":                                                         causesFinding("PP0005-2", e, `workflow.states.e.prompt_task = "gone"`),
	"prompts.*.id | other than its key":                                 causesFinding("PP0001-2", w, `prompts.a.id = "z"`),
	"prompts.*.name |":                                                  keptInDocument(`prompts.a.name = "Z"`, "/prompts/a/name"),
	"prompts.*.description |":                                           keptInDocument(`prompts.a.description = "Z"`, "/prompts/a/description"),
	"prompts.*.version |":                                               keptInDocument(`prompts.a.version = "9.0.0"`, "/prompts/a/version"),
	"prompts.*.system_template |":                                       causesFinding("PP0003-1", w, `prompts.a.system_template = "{{other}}"`),
	"prompts.*.variables[] |":                                           startFails(``, `{"w":1}`, "unknown variable"),
	"prompts.*.variables[].validation |":                                startFails(variable+`"validation":{"max_length":1}}`, `{"v":"ab"}`, "maximum is 1"),
	"prompts.*.variables[].type | not one of the five":                  causesFinding("PP0003-5", w, `prompts.a.variables.0 = {"name":"v","type":"uuid","required":false}`),
	"prompts.*.variables[].description |":                               keptInDocument(variable+`"description":"d"}`, "/prompts/a/variables/0/description"),
	"prompts.*.variables[].example |":                                   keptInDocument(variable+`"example":"d"}`, "/prompts/a/variables/0/example"),
	"prompts.*.variables[].binding |":                                   causesFinding(ruleBinding, w, variable+`"binding":{"kind":"env","field":"X"}}`),
	"prompts.*.tools[] |":                                               altersGraph(`prompts.a.tools = ["t","b"]`),
	"prompts.*.tool_policy.blocklist |":                                 altersGraph(`prompts.a.tool_policy = {"blocklist":["t"]}`),
	"prompts.*.tool_policy.max_tool_calls_per_turn |":                   altersGraph(`prompts.a.tool_policy = {"max_tool_calls_per_turn":2}`),
	"prompts.*.tool_policy.tool_choice |":                               sameBut(`prompts.a.tool_policy = {}`, `prompts.a.tool_policy = {"tool_choice":"none"}`),
	"prompts.*.tool_policy.max_rounds |":                                sameBut(`prompts.a.tool_policy = {}`, `prompts.a.tool_policy = {"max_rounds":1}`),
	"prompts.*.pipeline |":                                              keptInDocument(`prompts.a.pipeline = {"stages":["x"]}`, "/prompts/a/pipeline/stages/0"),
	"prompts.*.parameters |":                                            keptInDocument(`prompts.a.parameters = {"temperature":0.5,"top_k":null}`, "/prompts/a/parameters/top_k"),
	"prompts.*.validators |":                                            addsEnforced(`prompts.a.validators = [{"type":"banned_words","message":"m","params":{"words":["foo"]}}]`),
	"prompts.*.validators | of another type, or with another parameter": doesNotStart(ruleUnenforced, `prompts.a.validators = [{"type":"x","enabled":true,"params":{"a":1}}]`),
	"prompts.*.validators[].params | with a value that cannot be used":  causesFinding(ruleValidator, e, `prompts.a.validators = [{"type":"max_length","params":{"max":"x"}}]`),
	"prompts.*.evals |":                                                 addsEval(`prompts.a.evals = [{"id":"x","type":"regex","trigger":"every_turn","params":{"pattern":"x"}}]`),
	"prompts.*.evals | of another type, or with another trigger, parameter, threshold or when": causesFinding(ruleEvals, w, `prompts.a.evals = [{"id":"x","type":"llm_judge","trigger":"every_turn"}]`),
	"prompts.*.evals[].params | with a value that cannot be used":                              causesFinding(ruleEval, e, `prompts.a.evals = [{"id":"x","type":"max_length","trigger":"every_turn","params":{"max":"x"}}]`),
	"prompts.*.evals[].description |":                                                          keptInDocument(`prompts.a.evals = [{"id":"x","type":"json_valid","trigger":"every_turn","description":"d"}]`, "/prompts/a/evals/0/description"),
	"prompts.*.evals[].groups |":                                                               keptInDocument(`prompts.a.evals = [{"id":"x","type":"json_valid","trigger":"every_turn","groups":["g"]}]`, "/prompts/a/evals/0/groups/0"),
	"prompts.*.evals[].extensions |":                                                           keptInDocument(`prompts.a.evals = [{"id":"x","type":"json_valid","trigger":"every_turn","extensions":{"z/e":1}}]`, "/prompts/a/evals/0/extensions/z~1e"),
	"prompts.*.provider |":                                                                     bindsKey,
	"prompts.*.provider | a key that is not bound here": causesFinding(ruleRouted, w, `requires = {"providers":[{"key":"k","role":"llm"}]}
		prompts.a.provider = "k"`),
	"prompts.*.provider | a key of the role embedding, tts, stt or image": causesFinding("PP0017-3", w, `requires = {"providers":[{"key":"k","role":"stt"}]}
		prompts.a.provider = "k"`),
	"prompts.*.provider | no key of a requirement, nor `default`": causesFinding("PP0017-1", e, `prompts.a.provider = "k"`),
	"prompts.*.extensions |":                     keptInDocument(`prompts.a.extensions = {"z/p":[1,null]}`, "/prompts/a/extensions/z~1p/1"),
	"prompts.*.validators[].fail_on_violation |": causesFinding("PP0015-3", w, `prompts.a.validators = [{"type":"x","fail_on_violation":true}]`),
	"prompts.*.tested_models |":                  keptInDocument(`prompts.a.tested_models = [{"provider":"p","model":"m","date":"2026-01-01"}]`, "/prompts/a/tested_models/0/model"),
	"prompts.*.model_overrides |":                keptInDocument(`prompts.a.model_overrides = {"m":{"system_template":"Yo {{v}}"}}`, "/prompts/a/model_overrides/m/system_template"),
	"prompts.*.media |":                          keptInDocument(`prompts.a.media = {"enabled":true,"supported_types":["image"],"image":{"max_size_mb":1}}`, "/prompts/a/media/image"),
	"tools.*.name | other than its key":          causesFinding(ruleToolName, SeverityWarning, `tools.t.name = "other"`),
	"tools.*.description |":                      keptInDocument(`tools.t.description = "other"`, "/tools/t/description"),
	"tools.*.parameters |": {run: func(t *testing.T) {
		if faults := mustLoad(t, []byte(base)).CheckPayload("t", []byte(`{}`)); len(faults) != 1 {
			t.Error(faults)
		}
	}},
	"tools.*.action_scope |": causesFinding(ruleScope, w, `tools.t.action_scope = {"effect":"write"}`),
	"tools.*.extensions |":   keptInDocument(`tools.t.extensions = {"z/p":1}`, "/tools/t/extensions/z~1p"),
	"evals |":                addsEval(`evals = [{"id":"x","type":"regex","trigger":"every_turn","params":{"pattern":"x"}}]`),
	"evals | of another type, or with another trigger, parameter, threshold or when": causesFinding(ruleEvals, w, `evals = [{"id":"x","type":"llm_judge","trigger":"every_turn"}]`),
	"evals[].params | with a value that cannot be used":                              causesFinding(ruleEval, e, `evals = [{"id":"x","type":"max_length","trigger":"every_turn","params":{"max":"x"}}]`),
	"evals[].description |":                             keptInDocument(`evals = [{"id":"x","type":"json_valid","trigger":"every_turn","description":"d"}]`, "/evals/0/description"),
	"evals[].groups |":                                  keptInDocument(`evals = [{"id":"x","type":"json_valid","trigger":"every_turn","groups":["g"]}]`, "/evals/0/groups/0"),
	"evals[].extensions |":                              keptInDocument(`evals = [{"id":"x","type":"json_valid","trigger":"every_turn","extensions":{"z/e":1}}]`, "/evals/0/extensions/z~1e"),
	"requires.providers |":                              bindsKey,
	"requires.providers | a key that is not bound here": causesFinding(ruleBound, w, `requires = {"providers":["k"]}`),
	"requires.providers[].capabilities |":               sameBut(`requires = {"providers":[{"key":"default","role":"llm"}]}`, `requires = {"providers":[{"key":"default","role":"llm","capabilities":{"tool_use":true}}]}`),
	"requires.providers[].description |":                sameBut(`requires = {"providers":[{"key":"default","role":"llm"}]}`, `requires = {"providers":[{"key":"default","role":"llm","description":"d"}]}`),
	"requires.providers[].required |":                   sameBut(`requires = {"providers":[{"key":"default","role":"llm"}]}`, `requires = {"providers":[{"key":"default","role":"llm","required":false}]}`),
	"skills |":                                          keptInDocument(`skills = ["./a",{"path":"./b","preload":true},{"name":"n","description":"d","instructions":"i"}]`, "/skills/2/instructions"),

	"workflow.version | 1, 2":                                             keptInDocument(`workflow.version = 1`, "/workflow/version"),
	"workflow.version | 3 and above":                                      causesFinding("PP0009-Q1", e, `workflow.version = 3`),
	"workflow.entry |":                                                    altersGraph(`workflow.entry = "e"`),
	"workflow.states |":                                                   altersGraph(`workflow.states.s.on_event = {"Go":"e"}`),
	"workflow.states.*.prompt_task |":                                     altersGraph(`workflow.states.s.prompt_task = "b"`),
	"workflow.states.*.description |":                                     keptInDocument(`workflow.states.s.description = "d"`, "/workflow/states/s/description"),
	"workflow.states.*.on_event |":                                        altersGraph(`workflow.states.s.on_event.More = "s"`),
	"workflow.states.*.persistence |":                                     altersGraph(`workflow.states.s.persistence = "persistent"`),
	"workflow.states.*.orchestration | internal, external, hybrid":        altersGraph(`workflow.states.s.orchestration = "external"`),
	"workflow.states.*.orchestration | composition, in a reachable state": doesNotStart(ruleComposed, composed),
	"workflow.states.*.composition | in a reachable state":                doesNotStart(ruleComposed, composed),
	"workflow.states.*.control |":                                         altersGraph(`workflow.states.s.control = "user"`),
	"workflow.states.*.extensions |":                                      keptInDocument(`workflow.states.s.extensions = {"z/s":true}`, "/workflow/states/s/extensions/z~1s"),
	"workflow.states.*.skills |":                                          keptInDocument(`workflow.states.s.skills = "none"`, "/workflow/states/s/skills"),
	"workflow.states.*.terminal |":                                        altersGraph(`workflow.states.s.terminal = true`),
	"workflow.states.*.max_visits |":                                      altersGraph(`workflow.states.s.max_visits = 6`),
	"workflow.states.*.on_max_visits |":                                   altersGraph(`workflow.states.s.on_max_visits = -`),
	"workflow.states.*.artifacts.*.type |":                                altersGraph(`workflow.states.s.artifacts.x.type = "text/markdown"`),
	"workflow.states.*.artifacts.*.mode |":                                altersGraph(`workflow.states.s.artifacts.x.mode = "append"`),
	"workflow.states.*.artifacts.*.description |":                         keptInDocument(`workflow.states.s.artifacts.x.description = "d"`, "/workflow/states/s/artifacts/x/description"),
	"workflow.engine.budget |":                                            altersGraph(`workflow.engine.budget = {"max_tool_calls":3}`),
	"workflow.engine.budget.* | unknown keys":                             causesFinding(ruleBudgetKey, e, `workflow.engine.budget.max_cost = 3`),
	"workflow.engine.x_pawl |":                                            altersGraph(`workflow.engine.x_pawl = {"max_steps":3}`),
	"workflow.engine.* | unknown keys":                                    causesFinding("PP0005-4", w, `workflow.engine.more = 3`),

	"agents.entry |": {run: func(t *testing.T) {
		g, err := mustLoad(t, changedPack(t, "workflow = -\nagents = {\"entry\":\"b\",\"members\":{\"a\":{},\"b\":{}}}")).Compile(Entry{})
		if err != nil || g.Entry != "agent:b" {
			t.Errorf("%+v %v", g, err)
		}
	}},
	"agents.members |":                            altersGraph(`agents = {"entry":"b","members":{"b":{}}}`),
	"agents.members.*.state |":                    altersGraph(`agents = {"entry":"b","members":{"b":{},"a":{}}}`),
	"agents.members.*.description |":              keptInDocument(`agents.members.b.description = "d"`, "/agents/members/b/description"),
	"agents.members.*.tags |":                     keptInDocument(`agents.members.b.tags = ["d"]`, "/agents/members/b/tags/0"),
	"agents.members.*.input_modes |":              keptInDocument(`agents.members.b.input_modes = ["image/*"]`, "/agents/members/b/input_modes/0"),
	"agents.members.*.output_modes |":             keptInDocument(`agents.members.b.output_modes = ["text/plain"]`, "/agents/members/b/output_modes/0"),
	"agents.members.*.governance |":               causesFinding(ruleGovernance, w, `agents = {"entry":"b","members":{"b":{"governance":{"autonomy_level":"suggests"}}}}`),
	"agents.members.*.extensions |":               keptInDocument(`agents.members.b.extensions = {"z/a":"x"}`, "/agents/members/b/extensions/z~1a"),
	"compositions |":                              doesNotStart(ruleComposed, composed),
	"compositions | that no reachable state uses": causesFinding("PP0010-4", w, `compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t"}]}`),
}

// sameBut: the second change makes no difference over the first.
func sameBut(first, second string) featureTest {
	return featureTest{run: func(t *testing.T) {
		x, y := mustLoad(t, changedPack(t, first)), mustLoad(t, changedPack(t, second))
		if !reflect.DeepEqual(graphs(t, x), graphs(t, y)) || x.Digest == y.Digest {
			t.Error("the graphs differ, or the documents do not")
		}
	}}
}

func TestFeatures(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for _, f := range featureRows {
		key := strings.TrimSpace(f.Path + " | " + f.When)
		if f.When == "" {
			key = f.Path + " |"
		}
		rows[key] = true
		check, ok := featureTests[key]
		if !ok {
			t.Errorf("no test for the row %q", key)
			continue
		}
		if f.Code != "" && check.code != f.Code {
			t.Errorf("the row %q has the code %q, and its test finds %q", key, f.Code, check.code)
		}
		if needs := f.Treatment == featureNotDone || f.Treatment == featureRefused; needs && f.Code == "" {
			t.Errorf("the row %q has no code", key)
		}
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			check.run(t)
		})
	}
	for key := range featureTests {
		if !rows[key] {
			t.Errorf("a test for %q, which is no row", key)
		}
	}
}

// TestFeatureTableIsComplete walks the schema: every field has a row or lies below one, and no row is of a field
// that does not exist.
func TestFeatureTableIsComplete(t *testing.T) {
	t.Parallel()
	for _, file := range []string{newestFile, unionFile} {
		known := map[string]bool{}
		for _, f := range fieldsOf(t, file) {
			known[f.path] = true
			below := slices.ContainsFunc(featureRows, func(r featureRow) bool { return strings.HasPrefix(r.Path, f.path+".") })
			if len(rowsOf(f.path)) == 0 && !below && !strings.Contains(f.path, ".x_pawl.") {
				t.Errorf("%s: no row for %s", file, f.path)
			}
		}
		for _, r := range featureRows {
			path := strings.TrimSuffix(r.Path, "[]")
			if !known[path] && !strings.HasSuffix(path, ".*") && path != "workflow.engine.x_pawl" {
				t.Errorf("%s: the row %s is of no field", file, r.Path)
			}
		}
	}
}

// field is a property of the format.
type field struct{ path, since string }

// fieldsOf lists the properties of a schema in the order of their paths: "*" stands for any key, "[]" for any
// element. What contains itself is listed once.
func fieldsOf(t *testing.T, file string) []field {
	t.Helper()
	root, err := readSchema(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	var walk func(node map[string]any, path, since string, open []string)
	walk = func(node map[string]any, path, since string, open []string) {
		if own, ok := node[sinceKey].(string); ok {
			since = own
		}
		if ref, ok := node["$ref"].(string); ok {
			if slices.Contains(open, ref) || strings.Contains(ref, "/XPawl") {
				return
			}
			walk(root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), path, since, append(slices.Clone(open), ref))
		}
		properties, _ := node["properties"].(map[string]any)
		for name, p := range properties {
			sub, ok := p.(map[string]any)
			if !ok {
				continue
			}
			at, age := strings.TrimPrefix(path+"."+name, "."), since
			if own, ok := sub[sinceKey].(string); ok {
				age = own
			}
			if before, ok := found[at]; !ok || age < before {
				found[at] = age
			}
			walk(sub, at, since, open)
		}
		if extra, ok := node["additionalProperties"].(map[string]any); ok {
			walk(extra, path+".*", since, open)
		}
		if items, ok := node["items"].(map[string]any); ok {
			walk(items, path+"[]", since, open)
		}
		for _, key := range []string{"oneOf", "anyOf", "allOf"} {
			list, _ := node[key].([]any)
			for _, v := range list {
				walk(v.(map[string]any), path, since, open)
			}
		}
		if then, ok := node["then"].(map[string]any); ok {
			walk(then, path, since, open)
		}
	}
	walk(root, "", PublishedSchemas()[0], nil)
	out := make([]field, 0, len(found))
	for _, path := range keys(found) {
		out = append(out, field{path, found[path]})
	}
	return out
}

// TestDocumentKeepsEverything: the typed document holds every field of a full
// pack, so that nothing is lost between reading and use.
func TestDocumentKeepsEverything(t *testing.T) {
	t.Parallel()
	p := mustLoad(t, changedPack(t, featureChange+`
prompts.a.tool_policy = {"tool_choice":"none","max_rounds":3,"max_tool_calls_per_turn":4,"blocklist":["t"]}
prompts.a.model_overrides = {"m":{"system_template_prefix":"p","system_template_suffix":"s","system_template":"t"}}
skills = ["./a",{"path":"./b","preload":true},{"name":"n","description":"d","instructions":"i"}]
evals = [{"id":"x","type":"y","trigger":"every_turn","metric":{"name":"m","type":"gauge","Range":"kept apart","range":{"min":1,"max":2}}}]`))
	pol := p.Doc.Prompts["a"].ToolPolicy
	if pol.ToolChoice != "none" || *pol.MaxRounds != 3 || *pol.MaxToolCallsPerTurn != 4 || !slices.Equal(pol.Blocklist, []string{"t"}) {
		t.Errorf("tool policy %+v", pol)
	}
	if o := p.Doc.Prompts["a"].ModelOverrides["m"]; o.Prefix != "p" || o.Suffix != "s" || o.Template != "t" {
		t.Errorf("override %+v", o)
	}
	if want := []SkillSource{{Path: "./a"}, {Path: "./b", Preload: true}, {Name: "n", Description: "d", Instructions: "i"}}; !reflect.DeepEqual(p.Doc.Skills, want) {
		t.Errorf("skills %+v", p.Doc.Skills)
	}
	if m := p.Doc.Evals[0].Metric; m.Range == nil || *m.Range.Min != 1 || *m.Range.Max != 2 {
		t.Errorf("metric %+v", m)
	}
	if raw, err := json.Marshal(p.Doc.Evals[0]); err != nil || len(raw) == 0 {
		t.Error(err)
	}
}
