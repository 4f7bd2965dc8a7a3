package pack

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// base is a small pack without any finding. Cases change one thing in it.
const base = `{
 "id":"p","name":"P","version":"1.0.0",
 "template_engine":{"version":"v1","syntax":"{{variable}}"},
 "prompts":{
  "a":{"id":"a","name":"A","version":"1.0.0","system_template":"Hi {{v}} {{artifacts.x}} {{fragments.f}}",
   "variables":[{"name":"v","type":"string","required":false}],"tools":["t"]},
  "b":{"id":"b","name":"B","version":"1.0.0","system_template":"Bye"}},
 "fragments":{"f":"text"},
 "tools":{"t":{"name":"t","description":"T","parameters":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}},
 "workflow":{"version":2,"entry":"s","engine":{"budget":{"max_total_visits":50}},
  "states":{
   "s":{"prompt_task":"a","on_event":{"Go":"e","Again":"s"},"max_visits":5,"on_max_visits":"e",
        "artifacts":{"x":{"type":"text/plain"}}},
   "e":{"prompt_task":"b","terminal":true,"on_event":{}}}}}`

// patch changes a document: path "a.b.c" gets the JSON value; value "-" removes it.
func patch(t testing.TB, doc map[string]any, path, value string) {
	t.Helper()
	var at any = doc
	parts := strings.Split(path, ".")
	for i, part := range parts {
		if list, ok := at.([]any); ok {
			var n int
			if _, err := fmt.Sscan(part, &n); err != nil || n >= len(list) {
				t.Fatalf("no element %s in %s", part, path)
			}
			if i == len(parts)-1 {
				list[n] = parse1(t, value)
				return
			}
			at = list[n]
			continue
		}
		obj, ok := at.(map[string]any)
		if !ok {
			t.Fatalf("%s: %s is no object", path, part)
		}
		if i < len(parts)-1 {
			if obj[part] == nil {
				obj[part] = map[string]any{}
			}
			at = obj[part]
			continue
		}
		if value == "-" {
			delete(obj, part)
		} else {
			obj[part] = parse1(t, value)
		}
	}
}

func parse1(t testing.TB, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

// changedPack applies "path = value" lines to base.
func changedPack(t testing.TB, lines string) []byte { t.Helper(); return changedFrom(t, base, lines) }

func changedFrom(t testing.TB, from, lines string) []byte {
	t.Helper()
	doc := parse1(t, from).(map[string]any)
	// A value may continue on an indented line.
	lines = strings.ReplaceAll(lines, "\n\t\t{", " {")
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		if path, value, ok := strings.Cut(line, " = "); ok {
			patch(t, doc, strings.TrimSpace(path), strings.TrimSpace(value))
		}
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBaseHasNoFindings(t *testing.T) {
	t.Parallel()
	p, ds, err := Load([]byte(base), Options{})
	if err != nil || p == nil || len(ds) != 0 {
		t.Fatalf("%v %v", err, ds)
	}
	for _, strict := range PublishedSchemas() {
		if p, ds, err := Load([]byte(base), Options{Strict: strict}); err != nil || p == nil || len(ds) != 0 {
			t.Errorf("strict %s: %v %v", strict, err, ds)
		}
	}
}

// TestToolsOfTheSidecarAreListed: a tool that reconciles or compensates calls may have settings and may be
// sensitive without being in a prompt.
func TestToolsOfTheSidecarAreListed(t *testing.T) {
	t.Parallel()
	doc := changedPack(t, `tools.u = {"name":"u","description":"d"}
		workflow.engine.x_pawl = {"sensitive":{"tools":["u"]},"tools":{"t":{"compensate":"u"},"u":{"attempts":5}}}`)
	if p, ds, err := Load(doc, Options{}); err != nil || p == nil || len(ds) != 0 {
		t.Fatalf("%v %v", err, ds)
	}
}

// ruleCase is a change and the finding that it must cause.
type ruleCase struct {
	code    string
	sev     Severity
	pointer string
	change  string
	// text must be in the message.
	text string
}

const (
	e = SeverityError
	w = SeverityWarning
)

var ruleCases = []ruleCase{
	{source.CodeNumber, e, "", `workflow.engine.budget.max_total_visits = 9007199254740993`, "-9007199254740992"},
	{ruleSlot, e, "/workflow/states/s/artifacts/x", `workflow.states.e.artifacts = {"x":{"type":"text/markdown"}}`, "one slot"},
	{ruleSlot, e, "/workflow/states/s/artifacts/x", `workflow.states.e.artifacts = {"x":{"type":"text/plain","mode":"append"}}`, "append"},
	{ruleNoGuard, w, "/workflow/states/s/on_max_visits", `workflow.states.s.max_visits = -`, "never applies"},
	{ruleNoEnd, w, "/workflow/states/s", `workflow.states.s.on_event = {"Again":"s"}
		workflow.states.s.on_max_visits = -`, "no terminal state"},
	{ruleVarType, e, "/prompts/b/variables/0/type", `prompts.b.variables = [{"name":"v","type":"number","required":false}]`, "one run can reach both"},
	{ruleVarType, w, "/prompts/b/variables/0/default", `prompts.a.variables = [{"name":"v","type":"string","required":false,"default":"x"}]
		prompts.b.variables = [{"name":"v","type":"string","required":false,"default":"y"}]`, "comes first"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/nope", `workflow.engine.x_pawl = {"nope":1}`, "allowed: chat, compensate_on, erasable, lease_sec"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/max_steps", `workflow.engine.x_pawl = {"max_steps":0}`, "minimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/max_steps", `workflow.engine.x_pawl = {"max_steps":"3"}`, "want integer"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/reconcile", `tools.u = {"name":"u","description":"d"}
		workflow.engine.x_pawl = {"tools":{"t":{"on_unknown":"reconcile","reconcile":"u"},"u":{"approve":"always"}}}`, "such calls cannot be approved"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/compensate", `tools.u = {"name":"u","description":"d"}
		workflow.engine.x_pawl = {"tools":{"t":{"compensate":"u"},"u":{"approve":"payload.amount > 5.0"}}}`, "such calls cannot be approved"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/on_unknown", `workflow.engine.x_pawl = {"tools":{"t":{"on_unknown":"reconcile"}}}`, "no reconcile tool is set"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/reconcile", `tools.u = {"name":"u","description":"d"}
		workflow.engine.x_pawl = {"tools":{"t":{"reconcile":"u"}}}`, "the reconcile tool is never called"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/tools/t/compensate", `workflow.engine.x_pawl = {"tools":{"t":{"compensate":"nope"}}}`, "not a tool of the pack"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/compensate", `tools.u = {"name":"u","description":"d"}
		workflow.engine.x_pawl = {"tools":{"t":{"compensate":"u"},"u":{"compensate":"t"}}}`, "must not have a compensate tool itself"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/compensate", `tools.u = {"name":"u","description":"d"}
		workflow.engine.x_pawl = {"tools":{"t":{"compensate":"u"},"u":{"dedupe":["id"]}}}`, "must not have a business key"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/compensate", `tools.u = {"name":"u","description":"d","parameters":{"type":"object","properties":{"order":{"type":"string"}},"required":["order"]}}
		workflow.engine.x_pawl = {"tools":{"t":{"compensate":"u"}}}`, "which the calls of the sidecar do not contain"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/on_error", `workflow.engine.x_pawl = {"tools":{"t":{"on_error":"retry"}}}`, `"return", "escalate"`},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/more", `workflow.engine.x_pawl = {"tools":{"t":{"more":1}}}`, "not known"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/timeouts/s", `workflow.engine.x_pawl = {"timeouts":{"s":{"event":"Go"}}}`, "after_sec"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/retry/initial_sec", `workflow.engine.x_pawl = {"retry":{"initial_sec":9,"max_sec":2}}`, "more than max_sec"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/retry/initial_sec", `workflow.engine.x_pawl = {"tools":{"t":{"retry":{"initial_sec":0.5,"max_sec":0.25}}}}`, "0.5 is more than max_sec 0.25"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/model_calls/retry/initial_sec", `workflow.engine.x_pawl = {"model_calls":{"retry":{"initial_sec":9,"max_sec":2}}}`, "more than max_sec"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/attempts", `workflow.engine.x_pawl = {"tools":{"t":{"attempts":2,"retry":3}}}`, "retry.max_attempts is 3"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/retry/jitter", `workflow.engine.x_pawl = {"tools":{"t":{"retry":{"jitter":1.5}}}}`, "maximum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/retry/multiplier", `workflow.engine.x_pawl = {"tools":{"t":{"retry":{"multiplier":0.5}}}}`, "minimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/retry/backoff", `workflow.engine.x_pawl = {"tools":{"t":{"retry":{"backoff":2}}}}`, "allowed: initial_sec, jitter, max_attempts, max_sec, multiplier, non_retryable"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/retry/non_retryable/0", `workflow.engine.x_pawl = {"tools":{"t":{"retry":{"non_retryable":[""]}}}}`, "minLength"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/retry", `workflow.engine.x_pawl = {"tools":{"t":{"retry":"often"}}}`, "want integer"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/model_calls/attempts", `workflow.engine.x_pawl = {"model_calls":{"attempts":2}}`, "allowed: on_unknown, retry, timeout_sec"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/model_calls/on_unknown", `workflow.engine.x_pawl = {"model_calls":{"on_unknown":"fail"}}`, "return"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/model_calls/timeout_sec", `workflow.engine.x_pawl = {"model_calls":{"timeout_sec":0}}`, "minimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/retry", `workflow.engine.x_pawl = {"retry":0}`, "minimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/lease_sec", `workflow.engine.x_pawl = {"lease_sec":9007199254740991}`, "maximum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/max_cost_usd", `workflow.engine.x_pawl = {"max_cost_usd":0}`, "exclusiveMinimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/prices/m", `workflow.engine.x_pawl = {"prices":{"m":{"input":1}}}`, "output"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/prices/m", `workflow.engine.x_pawl = {"prices":{"m":2}}`, "want object"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/prices/m/outptu", `workflow.engine.x_pawl = {"prices":{"m":{"input":1,"output":1,"outptu":2}}}`, "allowed: cached, input, output, reasoning"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/prices/m/input", `workflow.engine.x_pawl = {"prices":{"m":{"input":-0.1,"output":1}}}`, "minimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/prices/m/output", `workflow.engine.x_pawl = {"prices":{"m":{"input":1,"output":1000001}}}`, "maximum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/prices/m/cached", `workflow.engine.x_pawl = {"prices":{"m":{"input":1,"output":1,"cached":"2"}}}`, "want number"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/prices/", `workflow.engine.x_pawl = {"prices":{"":{"input":1,"output":1}}}`, "1 to 256 bytes"},
	{"PPSCHEMA-enum", e, "/metadata/governance/autonomy_level", `metadata = {"governance":{"autonomy_level":"full"}}`, "acts_with_approval"},
	{"PPSCHEMA-additionalProperties", e, "/metadata/governance/riskiness", `metadata = {"governance":{"riskiness":"low"}}`, "riskiness"},
	{"PPSCHEMA-required", e, "/metadata/governance/obligations/0", `metadata = {"governance":{"obligations":[{"id":"o","obligation":"x"}]}}`, "controls"},
	{"PPSCHEMA-pattern", e, "/metadata/governance/reviews/0/cadence", `metadata = {"governance":{"reviews":[{"id":"r","type":"t","owner":"team","cadence":"P"}]}}`, ""},
	{ruleUnenforced, w, "/prompts/a/validators/0/type", `prompts.a.validators = [{"type":"toxicity","enabled":true},{"type":"x","enabled":false}]`, `"toxicity" is not enforced here`},
	{ruleUnenforced, w, "/prompts/a/validators/0/params/direction", `prompts.a.validators = [{"type":"banned_words","params":{"words":["x"],"direction":"input"}}]`, `"direction" is not known; known: match_mode, patterns, words`},
	{ruleUnenforced, w, "/prompts/a/validators/0/params/words", `prompts.a.validators = [{"type":"banned_words"}]`, "words: is required"},
	{ruleValidator, e, "/prompts/a/validators/0/params/max", `prompts.a.validators = [{"type":"max_length","params":{"max":0}}]`, "want a whole number, at least 1"},
	{ruleValidator, e, "/prompts/a/validators/0/params/pattern", `prompts.a.validators = [{"type":"regex","params":{"pattern":"(?:(?:.{20}a){50}){40}"}}]`, "not a usable regular expression"},
	{ruleValidator, e, "/prompts/a/validators/0/params/schema", `prompts.a.validators = [{"type":"json_schema","params":{"schema":{"type":"objekt"}}}]`, "not a usable JSON Schema"},
	{ruleToolName, w, "/tools/t/name", `tools.t.name = "u"`, `the tool is "t" to models`},
	{ruleOffered, w, "/workflow/states/e/prompt_task", `workflow.states.e.prompt_task = "a"
		workflow.states.e.artifacts = {"x":{"type":"text/plain"}}`, `terminal state "e" offers the tool "t" again`},
	{rulePrice, w, "/prompts/a/model_overrides/m", `prompts.a.model_overrides = {"m":{},"n":{}}
		workflow.engine.x_pawl = {"max_cost_usd":1,"prices":{"n":{"input":0,"output":0}}}`, "priced: n"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/no_progress", `workflow.engine.x_pawl = {"no_progress":{"over":["artifacts"]}}`, "window"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/no_progress/window", `workflow.engine.x_pawl = {"no_progress":{"window":1}}`, "minimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/no_progress/over", `workflow.engine.x_pawl = {"no_progress":{"window":2,"over":[]}}`, "minItems"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/no_progress/over/0", `workflow.engine.x_pawl = {"no_progress":{"window":2,"over":["messages"]}}`, `"artifacts", "tool_calls"`},
	{rulePrice, w, "/workflow/engine/x_pawl/models", `prompts.a.model_overrides = {"m":{}}
		workflow.engine.x_pawl = {"max_cost_usd":1,"models":{"*":"k"},"prices":{"n":{"input":0,"output":0}}}`, "no price of the model \"k\""},
	{ruleXPawl, e, "/workflow/engine/x_pawl/models/a", `workflow.engine.x_pawl = {"models":{"a":""}}`, "minLength"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/models/q", `workflow.engine.x_pawl = {"models":{"a":"m","*":"n","q":"m"}}`, "not a prompt; prompts: a, b"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/output_schema/q", `workflow.engine.x_pawl = {"output_schema":{"a":{"type":"object"},"q":{}}}`, "not a prompt; prompts: a, b"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/output_schema/a/type", `workflow.engine.x_pawl = {"output_schema":{"a":{"type":"thing"}}}`, "not a usable JSON Schema"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/output_schema/a", `workflow.engine.x_pawl = {"output_schema":{"a":{"$dynamicRef":"#a","$defs":{"a":{"$dynamicAnchor":"a"}}}}}`, "costs too much"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/chat/1", `workflow.engine.x_pawl = {"chat":["s","q"]}`, "is not a state"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/outcome/e", `workflow.engine.x_pawl = {"outcome":{"e":"lost"}}`, `"completed", "failed"`},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/outcome/q", `workflow.engine.x_pawl = {"outcome":{"q":"failed"}}`, "is not a state"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/outcome/s", `workflow.engine.x_pawl = {"outcome":{"s":"failed"}}`, "not terminal"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/max_iterations/q/Go", `workflow.engine.x_pawl = {"max_iterations":{"q":{"Go":1}}}`, "is not a state"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/max_iterations/s/Stop", `workflow.engine.x_pawl = {"max_iterations":{"s":{"Stop":1}}}`, "its events: Again, Go"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/timeouts/s/event", `workflow.engine.x_pawl = {"timeouts":{"s":{"after_sec":1,"event":"Stop"}}}`, "does not declare"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/max_run_artifact_bytes", `workflow.engine.x_pawl = {"max_run_artifact_bytes":0}`, "minimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/max_calls", `workflow.engine.x_pawl = {"tools":{"t":{"max_calls":0}}}`, "minimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/cost", `workflow.engine.x_pawl = {"tools":{"t":{"cost":0}}}`, "exclusiveMinimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/cost", `workflow.engine.x_pawl = {"tools":{"t":{"cost":-1}}}`, "exclusiveMinimum"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/tools/t/cost", `workflow.engine.x_pawl = {"max_cost_usd":1,"tools":{"t":{"cost":1.5}}}`, "no call would ever fit"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/on_budget", `workflow.engine.x_pawl = {"max_cost_usd":1,"on_budget":"nowhere"}`, "not a state"},
	{ruleXPawl, w, "/workflow/engine/x_pawl/on_budget", `workflow.engine.x_pawl = {"on_budget":"e"}`, "no budget to reach"},
	{ruleXPawl, w, "/workflow/engine/budget/max_tool_calls", `workflow.engine.budget = {"max_tool_calls":1}
		prompts.a.tools = ["t","b"]
		agents = {"entry":"a","members":{"a":{},"b":{}}}`, "never holds the agent \"b\""},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/result_bindings/t", `workflow.engine.x_pawl = {"result_bindings":{"t":"y"}}`, "artifacts: x"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/sensitive/artifacts/1", `workflow.engine.x_pawl = {"sensitive":{"artifacts":["x","y"]}}`, "no state declares it; known: x"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/sensitive/tools/0", `workflow.engine.x_pawl = {"sensitive":{"tools":["u"]}}`, "no prompt lists it"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/sensitive/variables/0", `workflow.engine.x_pawl = {"sensitive":{"variables":["nobody"]}}`, "no prompt declares or uses it"},
	{ruleXPawl, e, "/workflow/engine/x_pawl/sensitive/labels", `workflow.engine.x_pawl = {"sensitive":{"labels":["u"]}}`, ""},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/tools/u", `workflow.engine.x_pawl = {"tools":{"u":{"attempts":2}}}`, "the tool \"u\" is not declared"},
	{ruleXPawlRef, e, "/workflow/engine/x_pawl/result_bindings/u", `workflow.engine.x_pawl = {"result_bindings":{"u":"x"}}`, "the tool \"u\" is not declared"},
	{ruleXPawlRef, w, "/workflow/engine/x_pawl/tools/u", `tools.u = {"name":"u","description":"d","parameters":{"type":"object"}}
workflow.engine.x_pawl = {"tools":{"u":{"attempts":2}}}`, "no prompt lists"},
	{ruleXPawlRef, w, "/workflow/engine/x_pawl/timeouts/e/event", `workflow.states.e.on_event = {"Go":"s"}
		workflow.engine.x_pawl = {"timeouts":{"e":{"after_sec":1,"event":"Go"}}}`, "never fire"},
	{ruleSyntaxKind, e, "/template_engine/syntax", `template_engine.syntax = "${variable}"`, "{{variable}}"},
	{ruleFeature, e, "/template_engine/features/1", `template_engine.features = ["fragments","loops"]`, "basic_substitution, fragments"},
	{ruleFeature, e, "/template_engine/features/0", `template_engine.features = ["conditionals"]`, "not supported"},
	{ruleFeature, e, "/template_engine/features/0", `template_engine.features = ["filters"]`, "not supported"},
	{ruleComposed, w, "/workflow/states/s/orchestration", `workflow.states.s.orchestration = "composition"
		workflow.states.s.composition = "c"
		compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t"}]}`, "does not run"},
	{ruleFragment, e, "/prompts/b/system_template", `prompts.b.system_template = "{{fragments.none}}"`, "the pack has: f"},
	{ruleFragment, e, "/prompts/b/system_template", `prompts.b.system_template = "{{fragments.f.x}}"`, "no members"},
	{ruleFragment, e, "/fragments/f", `fragments.f = "{{fragments.f}}"`, "contain each other"},
	{ruleFragment, e, "/fragments/g", `fragments.g = "{{fragments.h}}"
		fragments.h = "{{fragments.g}}"`, "contain each other"},
	{ruleMedia, w, "/workflow/states/s/artifacts/x/type", `workflow.states.s.artifacts.x.type = "string"`, "no media type"},
	{ruleUnnameable, w, "/workflow/states/s/artifacts/a-b", `workflow.states.s.artifacts = {"x":{"type":"text/plain"},"a-b":{"type":"text/plain"}}`, "no template can name"},
	{ruleUnnameable, w, "/fragments/1", `fragments.1 = "x"`, "fragment"},
	{ruleBudgetKey, e, "/workflow/engine/budget/max_total_visit", `workflow.engine.budget.max_total_visit = 3`, "allowed: max_total_visits"},
	{ruleToolSchema, e, "/tools/t/parameters/properties/q/type", `tools.t.parameters.properties.q = {"type":"strin"}`, "JSON Schema"},
	{ruleToolSchema, e, "/tools/t/parameters", `tools.t.parameters.properties.q = {"$ref":"file:///etc/passwd"}`, "not followed"},
	{ruleToolSchema, e, "/tools/t/parameters/properties/q/pattern", `tools.t.parameters.properties.q = {"pattern":"("}`, "regex"},
	{ruleLiteral, w, "/prompts/b/system_template", `prompts.b.system_template = "{{#if v}}x{{/if}}"`, "{{#if v}}"},
	{ruleArtifact, w, "/prompts/b/system_template", `prompts.b.system_template = "{{artifacts.nope}}"`, "no state declares"},
	{ruleStepKind, e, "/compositions/c/steps/0/kind", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"loop"}]}`, "allowed: prompt"},

	{"PP0001-1", e, "/prompts/a/tools/0", `prompts.a.tools = ["u"]`, "the pack has: t"},
	{"PP0001-1", w, "/prompts/a/tools/0", `prompts.a.tools = ["u"]
		agents = {"entry":"a","members":{"a":{}}}`, "members: a"},
	{"PP0001-1", w, "/prompts/a/tool_policy/blocklist/0", `prompts.a.tool_policy = {"blocklist":["u"]}`, "blocked tool"},
	{"PP0001-2", w, "/prompts/a/id", `prompts.a.id = "other"`, "is not its key"},
	{"PP0003-1", w, "/prompts/b/system_template", `prompts.b.system_template = "{{nope}}"`, "empty unless given"},
	{"PP0003-1", w, "/prompts/a/system_template", `fragments.f = "{{deep}}"`, `"deep"`},
	{"PP0003-2", w, "/prompts/a/variables/0/default", `prompts.a.variables = [{"name":"v","type":"string","required":true,"default":"x"}]`, "never used"},
	{"PP0003-3", e, "/prompts/a/variables/0/validation/pattern", `prompts.a.variables.0 = {"name":"v","type":"string","required":true,"validation":{"pattern":"("}}`, "RE2"},
	{"PP0003-3", e, "/prompts/a/variables/0/validation/min_length", `prompts.a.variables.0 = {"name":"v","type":"string","required":true,"validation":{"min_length":5,"max_length":2}}`, "more than max_length"},
	{"PP0003-3", e, "/prompts/a/variables/0/validation/minimum", `prompts.a.variables.0 = {"name":"v","type":"number","required":true,"validation":{"minimum":5,"maximum":2}}`, "more than maximum"},
	{"PP0003-3", e, "/prompts/a/variables/0/validation/enum", `prompts.a.variables.0 = {"name":"v","type":"string","required":true,"validation":{"enum":[]}}`, "empty enum"},
	{"PP0003-3", e, "/prompts/a/variables/0/default", `prompts.a.variables.0 = {"name":"v","type":"number","required":false,"default":"x"}`, "want number"},
	{"PP0003-3", e, "/prompts/a/variables/0/default", `prompts.a.variables.0 = {"name":"v","type":"string","required":false,"default":"x","validation":{"enum":["y"]}}`, "not one of"},
	{"PP0003-3", w, "/prompts/a/variables/0/example", `prompts.a.variables.0 = {"name":"v","type":"string","required":false,"example":"abc","validation":{"max_length":2}}`, "maximum is 2"},
	{"PP0003-4", e, "/prompts/a/variables/1/name", `prompts.a.variables = [{"name":"v","type":"string","required":false},{"name":"v","type":"string","required":false}]`, "declared twice"},
	{"PP0003-5", w, "/prompts/a/variables/0/type", `prompts.a.variables.0 = {"name":"v","type":"date","required":false}`, "not checked"},
	{"PP0003-6", w, "/prompts/a/variables/1/name", `prompts.a.variables = [{"name":"v","type":"string","required":false},{"name":"artifacts","type":"object","required":false}]`, "namespace"},
	{"PP0004-1", e, "/prompts/a/media/supported_types/0", `prompts.a.media = {"enabled":true,"supported_types":["image"]}`, "no configuration object"},
	{"PP0004-2", e, "/prompts/a/media/examples/0/parts/0", `prompts.a.media = {"enabled":true,"examples":[{"name":"x","role":"user","parts":[{"type":"text"}]}]}`, "no text"},
	{"PP0004-2", e, "/prompts/a/media/examples/0/parts/0", `prompts.a.media = {"enabled":true,"examples":[{"name":"x","role":"user","parts":[{"type":"image"}]}]}`, "no media"},
	{"PP0004-3", e, "/prompts/a/media/examples/0/parts/0/media", `prompts.a.media = {"enabled":true,"examples":[{"name":"x","role":"user","parts":[{"type":"image","media":{"mime_type":"image/png"}}]}]}`, "names 0 of"},
	{"PP0004-3", e, "/prompts/a/media/examples/0/parts/0/media", `prompts.a.media = {"enabled":true,"examples":[{"name":"x","role":"user","parts":[{"type":"image","media":{"mime_type":"image/png","url":"http://x/y","base64":"eA=="}}]}]}`, "names 2 of"},
	{"PP0005-1", e, "/workflow/entry", `workflow.entry = "nope"`, "states: e, s"},
	{"PP0005-1", e, "/workflow/states/s/prompt_task", `workflow.states.s.prompt_task = "nope"`, "prompts: a, b"},
	{"PP0005-2", e, "/workflow/states/e/prompt_task", `workflow.states.e.prompt_task = "nope"`, "prompts: a, b"},
	{"PP0005-2", e, "/workflow/states/s/on_event/Go", `workflow.states.s.on_event.Go = "nope"`, "states: e, s"},
	{"PP0005-2", w, "/workflow/states/s", `workflow.engine = -
		workflow.states.s.max_visits = -
		workflow.states.s.on_max_visits = -`, "by the events Again can repeat for ever"},
	{"PP0005-3", w, "/workflow/states/s/on_event/go", `workflow.states.s.on_event.go = "e"`, "PascalCase"},
	{"PP0005-4", w, "/workflow/engine/telemetry", `workflow.engine.telemetry = {}`, "known: budget, x_pawl"},
	{"PP0005-Q3", w, "/workflow/states/q", `workflow.states.q = {"prompt_task":"b","terminal":true}`, "cannot be reached"},
	{"PP0006-1", e, "/evals/1/id", `evals = [{"id":"x","type":"y","trigger":"every_turn"},{"id":"x","type":"y","trigger":"every_turn"}]`, "used twice"},
	{"PP0006-1", e, "/prompts/a/evals/1/id", `prompts.a.evals = [{"id":"x","type":"y","trigger":"every_turn"},{"id":"x","type":"y","trigger":"every_turn"}]`, "used twice"},
	{"PP0006-2", w, "/evals/0/sample_percentage", `evals = [{"id":"x","type":"y","trigger":"every_turn","sample_percentage":5}]`, "no effect"},
	{"PP0006-3", w, "/evals/0/metric/name", `evals = [{"id":"x","type":"y","trigger":"every_turn","metric":{"name":"MyMetric","type":"gauge"}}]`, "snake_case"},
	{"PP0006-3", e, "/evals/0/metric/range/min", `evals = [{"id":"x","type":"y","trigger":"every_turn","metric":{"name":"m","type":"gauge","range":{"min":2,"max":1}}}]`, "more than max"},
	{"PP0007-1", e, "/agents/entry", `agents = {"entry":"nope","members":{"a":{}}}`, "prompts: a, b"},
	{"PP0007-2", e, "/agents/members/nope", `agents = {"entry":"a","members":{"a":{},"nope":{}}}`, "prompts: a, b"},
	{"PP0007-3", w, "/agents/entry", `agents = {"entry":"a","members":{"b":{}}}`, "exposed anyway"},
	{"PP0007-4", w, "/prompts/a/tools/0", `prompts.a.tools = ["b"]
		agents = {"entry":"a","members":{"a":{}}}`, "not an agent member"},
	{"PP0007-5", e, "/prompts/a/tools/0", `prompts.a.tools = ["a"]
		agents = {"entry":"a","members":{"a":{}}}`, "lists itself"},
	{"PP0007-6", w, "/agents/members/a/input_modes/0", `agents = {"entry":"a","members":{"a":{"input_modes":["text/plain; charset="]}}}`, "type/subtype"},
	{"PP0007-6", w, "/agents/members/a/input_modes/0", `agents = {"entry":"a","members":{"a":{"input_modes":["text"]}}}`, "type/subtype"},
	{"PP0008-1", w, "/skills/1/name", `skills = [{"name":"x","description":"d","instructions":"i"},{"name":"x","description":"d","instructions":"i"}]`, "declared twice"},
	{"PP0008-3", w, "/workflow/states/s/skills", `workflow.states.s.skills = "./other"
		skills = ["./skills/a"]`, "matches no declared"},
	{"PP0008-3", e, "/workflow/states/s/skills", `workflow.states.s.skills = " "`, "none"},
	{"PP0009-1", w, "/workflow/states/e/on_event", `workflow.states.e.on_event = {"Go":"s"}`, "never fire"},
	{"PP0009-2", e, "/workflow/states/s/on_max_visits", `workflow.states.s.on_max_visits = "nope"`, "states: e, s"},
	{"PP0009-2", e, "/workflow/states/s/on_max_visits", `workflow.states.s.on_max_visits = "s"`, "circle: s, s"},
	{"PP0009-2", e, "/workflow/states/e/on_max_visits", `workflow.states.e.max_visits = 2
		workflow.states.e.on_max_visits = "s"`, "circle: e, s, e"},
	{"PP0009-2", w, "/workflow/states/s/on_max_visits", `workflow.states.e.max_visits = 2`, "guarded itself"},
	{"PP0009-4", w, "/workflow/states/e/prompt_task", `prompts.b.system_template = "{{artifacts.x}}"`, "does not declare"},
	{"PP0009-5", w, "/workflow/states/s/max_visits", `workflow.states.s.max_visits = 60`, "never be reached"},
	{"PP0009-5", w, "/workflow/engine/budget/max_total_visits", `workflow.engine.budget.max_total_visits = 4`, "less than the 5 visits"},
	{"PP0009-7", w, "/workflow/states/e", `workflow.states.e = {"prompt_task":"b"}`, "taken as terminal"},
	{"PP0009-Q1", e, "/workflow/version", `workflow.version = 3`, "allowed: 1, 2"},
	{"PP0010-1", e, "/compositions/workflow__transition", `compositions.workflow__transition = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t"}]}`, "reserved"},
	{"PP0010-2", e, "/workflow/states/s", `workflow.states.s.orchestration = "composition"`, "names none"},
	{"PP0010-3", e, "/workflow/states/s/composition", `workflow.states.s.composition = "c"
		compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t"}]}`, "its orchestration is"},
	{"PP0010-3", e, "/workflow/states/s", `workflow.states.s.prompt_task = -`, "no prompt_task"},
	{"PP0010-3", w, "/workflow/states/s/prompt_task", `workflow.states.s.orchestration = "composition"
		workflow.states.s.composition = "c"
		compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t"}]}`, "not used"},
	{"PP0010-4", e, "/workflow/states/s/composition", `workflow.states.s.orchestration = "composition"
		workflow.states.s.composition = "c"`, "compositions: none"},
	{"PP0010-4", w, "/compositions/c", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t"}]}`, "no state uses"},
	{"PP0010-5", e, "/compositions/c/steps/1/branches/0/id", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t"},
		{"id":"p","kind":"parallel","branches":[{"id":"x","kind":"tool","tool":"t"},{"id":"y","kind":"tool","tool":"t"}],"reduce":{"strategy":"append","into":"o"}}]}`, "used twice"},
	{"PP0010-6", e, "/compositions/c/steps/0/id", `compositions.c = {"version":1,"steps":[{"id":"1x","kind":"tool","tool":"t"}]}`, "does not match"},
	{"PP0010-7", e, "/compositions/c/steps/0/prompt_task", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"prompt","prompt_task":"nope"}]}`, "prompts: a, b"},
	{"PP0010-8", e, "/compositions/c/steps/0/tool", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"nope"}]}`, "the pack has: t"},
	{"PP0010-8", e, "/compositions/c/steps/0/tools/0", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"agent","prompt_task":"a","tools":["nope"],"termination":{"max_steps":1}}]}`, "not declared"},
	{"PP0010-9", e, "/compositions/c/steps/0/then", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"branch","predicate":{"path":"${input.a}","exists":true},"then":"nope"}]}`, "not a step"},
	{"PP0010-9", e, "/compositions/c/steps/0/depends_on/0", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t","depends_on":["nope"]}]}`, "not a step"},
	{"PP0010-9", e, "/compositions/c/output", `compositions.c = {"version":1,"output":"nope","steps":[{"id":"x","kind":"tool","tool":"t"}]}`, "not a step"},
	{"PP0010-9", w, "/compositions/c/steps/1", `compositions.c = {"version":1,"steps":[
		{"id":"p","kind":"parallel","branches":[{"id":"x","kind":"tool","tool":"t"},{"id":"y","kind":"tool","tool":"t"}],"reduce":{"strategy":"append","into":"o"}},
		{"id":"z","kind":"tool","tool":"t"}]}`, "without saying what it waits for"},
	{"PP0010-10", e, "/compositions/c/steps/0/modifiers/eval/0", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t","modifiers":{"eval":["nope"]}}]}`, "not an eval"},
	{"PP0010-11", e, "/compositions/c/steps/0/args", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t","args":{"q":"a ${nope.output.x} b"}}]}`, "is no step"},
	{"PP0010-11", e, "/compositions/c/steps/0/input", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"prompt","prompt_task":"a","input":"${x.output.y}"}]}`, "does not come before"},
	{"PP0010-11", e, "/compositions/c/steps/1/input", `compositions.c = {"version":1,"steps":[{"id":"w","kind":"tool","tool":"t"},{"id":"x","kind":"prompt","prompt_task":"a","input":"${w.result}"}]}`, "only output"},
	{"PP0010-12", e, "/compositions/c/steps/0", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"agent","prompt_task":"a"}]}`, "termination"},
	{"PP0010-12", e, "/compositions/c/steps/0/termination", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"agent","prompt_task":"a","termination":{}}]}`, "max_steps"},
	{"PP0010-13", e, "/compositions/c/steps/0/branches", `compositions.c = {"version":1,"steps":[{"id":"p","kind":"parallel","branches":[{"id":"x","kind":"tool","tool":"t"}],"reduce":{"strategy":"append","into":"o"}}]}`, "minItems"},
	{"PP0010-13", e, "/compositions/c/steps/0", `compositions.c = {"version":1,"steps":[{"id":"p","kind":"parallel","branches":[{"id":"x","kind":"tool","tool":"t"},{"id":"y","kind":"tool","tool":"t"}]}]}`, "reduce"},
	{"PP0010-13", w, "/compositions/c/steps/0/reduce/strategy", `compositions.c = {"version":1,"steps":[{"id":"p","kind":"parallel","branches":[{"id":"x","kind":"tool","tool":"t"},{"id":"y","kind":"tool","tool":"t"}],"reduce":{"strategy":"pick","into":"o"}}]}`, "append, replace, barrier"},
	{"PP0010-14", e, "/compositions/c/steps/0/predicate", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"branch","predicate":{"expr":"a > b"},"then":"x"}]}`, "none of"},
	{"PP0010-15", e, "/compositions/c/steps/0", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t","depends_on":["y"]},{"id":"y","kind":"tool","tool":"t"}]}`, "form a cycle"},
	{"PP0010-15", e, "/compositions/c/steps/0/branches/0", `compositions.c = {"version":1,"steps":[{"id":"p","kind":"parallel","branches":[{"id":"x","kind":"tool","tool":"t","depends_on":["y"]},{"id":"y","kind":"tool","tool":"t","depends_on":["x"]}],"reduce":{"strategy":"append","into":"o"}}]}`, "x, y, x"},
	{"PP0010-15", e, "/compositions/c/steps/0", `compositions.c = {"version":1,"steps":[{"id":"p","kind":"parallel","branches":[{"id":"x","kind":"tool","tool":"t","depends_on":["p"]},{"id":"y","kind":"tool","tool":"t"}],"reduce":{"strategy":"append","into":"o"}}]}`, "p, x, p"},
	{"PP0010-15", e, "/compositions/c/steps/0", `compositions.c = {"version":1,"steps":[{"id":"p","kind":"parallel","branches":[{"id":"x","kind":"tool","tool":"t"},{"id":"y","kind":"tool","tool":"t","depends_on":["z"]}],"reduce":{"strategy":"append","into":"o"}},{"id":"z","kind":"tool","tool":"t","depends_on":["x","p"]}]}`, "p, "},
	{"PP0010-15", e, "/compositions/c/steps/0/branches/0", `compositions.c = {"version":1,"steps":[{"id":"p","kind":"parallel","branches":[{"id":"q","kind":"parallel","branches":[{"id":"x","kind":"tool","tool":"t","depends_on":["w"]},{"id":"y","kind":"tool","tool":"t"}],"reduce":{"strategy":"append","into":"o"}},{"id":"w","kind":"tool","tool":"t","depends_on":["y","q"]}],"reduce":{"strategy":"append","into":"o"}}]}`, "form a cycle"},
	{"PP0010-15", e, "/compositions/c/steps/0", `compositions.c = {"version":1,"steps":[{"id":"b","kind":"branch","predicate":{"path":"x","exists":true},"then":"b"}]}`, "b, b"},
	{"PP0011-1", e, "/agents/members/a/state", `agents = {"entry":"a","members":{"a":{"state":"nope"}}}`, "states: e, s"},
	{"PP0011-2", e, "/agents/members/a/state", `agents = {"entry":"a","members":{"a":{"state":"s"}}}
		workflow = -`, "no workflow"},
	{ruleControl, w, "/workflow/states/s", `workflow.states.e.control = "agent"`, "has no control"},
	{ruleGovernance, w, "/metadata/governance", `metadata = {"governance":{"approved_environments":["prod"],"autonomy_level":"suggests"}}`, "approved_environments, autonomy_level"},
	{ruleScope, w, "/tools/t/action_scope", `tools.t.action_scope = {"effect":"external"}`, "no call is held"},
	{ruleBound, w, "/requires/providers", `requires = {"providers":["default","k"]}`, "requirements k are bound"},
	{ruleRouted, w, "/prompts/a/provider", `requires = {"providers":["k"]}
		prompts.a.provider = "k"`, "no model is bound here"},
	{"PP0017-3", w, "/prompts/a/provider", `requires = {"providers":[{"key":"k","role":"tts"}]}
		prompts.a.provider = "k"`, `of the role "tts"`},
	{"PP0017-3", w, "/prompts/b", `requires = {"providers":[{"key":"default","role":"image"}]}`, `of the role "image"`},
	{ruleEvals, w, "/evals/0/type", `evals = [{"id":"x","type":"llm_judge","trigger":"every_turn"}]`, "\"x\" is not run here: no program here runs the type \"llm_judge\""},
	{ruleEvals, w, "/prompts/a/evals/0/trigger", `prompts.a.evals = [{"id":"x","type":"json_valid","trigger":"hourly"}]`, "known: every_turn, sample_turns"},
	{ruleEvals, w, "/evals/0/params/text", `evals = [{"id":"x","type":"contains","trigger":"every_turn","params":{"text":"a"}}]`, "known: patterns"},
	{ruleEvals, w, "/evals/0/params/patterns", `evals = [{"id":"x","type":"contains","trigger":"every_turn"}]`, "is required"},
	{ruleEvals, w, "/evals/0/threshold", `evals = [{"id":"x","type":"json_valid","trigger":"every_turn","threshold":{"operator":"near","value":1}}]`, "gte, gt"},
	{ruleEvals, w, "/evals/0/when", `evals = [{"id":"x","type":"json_valid","trigger":"every_turn","when":{"it_rains":true}}]`, "it_rains"},
	{ruleEval, e, "/evals/0/params/pattern", `evals = [{"id":"x","type":"regex","trigger":"every_turn","params":{"pattern":"((a{1,900}){1,900}){1,900}"}}]`, "regular expression"},
	{ruleEval, e, "/evals/0/when/tool_called_pattern", `evals = [{"id":"x","type":"json_valid","trigger":"every_turn","when":{"tool_called_pattern":"("}}]`, "regular expression"},
	{ruleEval, e, "/evals/0/params/schema", `evals = [{"id":"x","type":"json_schema","trigger":"every_turn","params":{"schema":{"$ref":"https://example.org/x"}}}]`, "JSON Schema"},
	{ruleEval, e, "/evals/0/metric/name", `evals = [{"id":"x","type":"json_valid","trigger":"every_turn","metric":{"name":"pawl_x","type":"gauge"}}]`, "belong to the sidecar"},
	{ruleEval, e, "/evals/0/metric/name", `evals = [{"id":"x","type":"json_valid","trigger":"every_turn","metric":{"name":"` + strings.Repeat("m", 201) + `","type":"gauge"}}]`, "201 bytes; at most 200"},
	{ruleBinding, w, "/prompts/a/variables/0/binding", `prompts.a.variables.0 = {"name":"v","type":"string","required":false,"binding":{"kind":"env"}}`, "fills nothing"},
	{"PP0012-1", e, "/requires/providers/1/key", `requires = {"providers":["default",{"key":"default","role":"llm"}]}`, "given twice"},
	{"PP0012-1", e, "/requires/providers/1", `requires = {"providers":["k","k"]}`, "given twice"},
	{"PP0012-2", w, "/requires/providers/0/role", `requires = {"providers":[{"key":"k","role":"lmm"}]}`, "llm, embedding"},
	{"PP0012-3", w, "/requires/providers/0", `requires = {"providers":["a b"]}`, "characters"},
	{"PPSCHEMA-pattern", e, "/requires/providers/0/key", `requires = {"providers":[{"key":"a b","role":"llm"}]}`, "does not match"},
	{"PPSCHEMA-required", e, "/requires/providers/0", `requires = {"providers":[{"key":"k"}]}`, `"role" is missing`},
	{"PP0013-4", e, "/metadata/governance/vocabularies/z", `metadata = {"governance":{"vocabularies":{"z":"terms"}}}`, "absolute IRI"},
	{"PP0013-4", e, "/agents/members/a/governance/vocabularies/a b", `agents = {"entry":"a","members":{"a":{"governance":{"vocabularies":{"a b":"https://z.example/"}}}}}`, "before a term"},
	{"PP0013-5", w, "/metadata/governance/capabilities/0", `metadata = {"governance":{"capabilities":["nope:X"]}}`, "neither declared"},
	{"PP0013-5", w, "/tools/t/action_scope/data_classes/0", `tools.t.action_scope = {"data_classes":["nope:X"]}`, "neither declared"},
	{"PPSCHEMA-enum", e, "/metadata/governance/autonomy_level", `metadata = {"governance":{"autonomy_level":"full"}}`, "suggests"},
	{"PPSCHEMA-additionalProperties", e, "/tools/t/action_scope/cost", `tools.t.action_scope = {"cost":1}`, "reversibility"},
	{"PPSCHEMA-enum", e, "/workflow/states/s/control", `workflow.states.s.control = "both"`, "agent"},
	{"PP0014-3", w, "/workflow/states/e/control", `workflow.states.e.control = "agent"`, "no effect"},
	{"PP0014-4", w, "/workflow/states/m", `workflow.states.m = {"prompt_task":"b","control":"agent","on_event":{"Next":"n"}}
		workflow.states.n = {"prompt_task":"b","control":"agent","on_event":{"Next":"m"}}`, "m, n"},
	{"PP0014-4", w, "/workflow/states/m", `workflow.states.m = {"prompt_task":"b","control":"agent","on_event":{"Next":"m"}}`, "pass the turn"},
	{"PP0015-3", w, "/prompts/a/validators/0/fail_on_violation", `prompts.a.validators = [{"type":"x","fail_on_violation":true}]`, "deprecated"},
	{"PP0015-3", w, "/prompts/a/validators/0/fail_on_violation", `prompts.a.validators = [{"type":"x","fail_on_violation":false}]`, "since 1.7.0"},
	{"PP0016-2", e, "/metadata/governance/obligations/1/id", `metadata = {"governance":{"obligations":[{"id":"o","obligation":"x","controls":[{"external":"y"}]},{"id":"o","obligation":"x","controls":[{"external":"y"}]}]}}`, "given twice"},
	{"PP0016-2", e, "/metadata/governance/reviews/1/id", `metadata = {"governance":{"reviews":[{"id":"r","type":"t","owner":"o","cadence":"P1Y"},{"id":"r","type":"t","owner":"o","cadence":"P1Y"}]}}`, "given twice"},
	{"PP0016-4", e, "/metadata/governance/obligations/0/controls/0/eval", `metadata = {"governance":{"obligations":[{"id":"o","obligation":"x","controls":[{"eval":"nope"}]}]}}`, "neither of the pack"},
	{"PP0016-4", e, "/metadata/governance/reviews/0/eval", `metadata = {"governance":{"reviews":[{"id":"r","type":"t","owner":"o","cadence":"P1Y","eval":""}]}}`, "neither of the pack"},
	{"PP0016-5", e, "/metadata/governance/obligations/0/controls/0/validator", `metadata = {"governance":{"obligations":[{"id":"o","obligation":"x","controls":[{"validator":"nope"}]}]}}`, "has the id"},
	{"PP0016-5", e, "/prompts/b/validators/0/id", `prompts.a.validators = [{"id":"v","type":"x","enabled":false}]
		prompts.b.validators = [{"id":"v","type":"x","enabled":false}]`, "used twice"},
	{"PP0016-6", e, "/metadata/governance/obligations/0/controls/0/field", `metadata = {"governance":{"obligations":[{"id":"o","obligation":"x","controls":[{"field":"owner"}]}]}}`, "not a property"},
	{"PP0016-6", e, "/agents/members/a/governance/obligations/0/controls/0/field", `agents = {"entry":"a","members":{"a":{"governance":{"obligations":[{"id":"o","obligation":"x","controls":[{"field":"accountable_owner"}]}]}}}}`, "not declared"},
	{"PP0016-7", e, "/metadata/governance/reviews/0/satisfies/0", `metadata = {"governance":{"reviews":[{"id":"r","type":"t","owner":"o","cadence":"P1Y","satisfies":["nope"]}]}}`, "not the id"},
	{"PP0016-10", w, "/metadata/governance/obligations/0/obligation", `metadata = {"governance":{"obligations":[{"id":"o","obligation":"nope:x","controls":[{"external":"y"}]}]}}`, "neither declared"},
	{"PP0016-10", w, "/metadata/governance/reviews/0/type", `metadata = {"governance":{"reviews":[{"id":"r","type":"nope:t","owner":"o","cadence":"P1Y"}]}}`, "neither declared"},
	{"PPSCHEMA-pattern", e, "/metadata/governance/reviews/0/cadence", `metadata = {"governance":{"reviews":[{"id":"r","type":"t","owner":"o","cadence":"PT"}]}}`, "does not match"},
	{"PP0017-1", e, "/prompts/a/provider", `prompts.a.provider = "nope"`, "allowed: default"},
	{"PP0017-1", e, "/compositions/c/steps/0/provider", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"prompt","prompt_task":"a","provider":"nope"}]}`, "allowed: default"},
	{"PP0017-2", w, "/compositions/c/steps/0/provider", `compositions.c = {"version":1,"steps":[{"id":"x","kind":"tool","tool":"t","provider":3}]}`, "has no provider"},
	{"PP0017-4", w, "/prompts/a/provider", `requires = {"providers":[{"key":"k","role":"llm","required":false}]}
		prompts.a.provider = "k"`, "optional"},
	{"PP0017-5", w, "/prompts/a/provider", `requires = {"providers":[{"key":"k","role":"inference"}]}
		prompts.a.provider = "k"`, "conversation"},
	{"PP0017-5", w, "/compositions/c/steps/0/provider", `requires = {"providers":[{"key":"k","role":"inference"}]}
		compositions.c = {"version":1,"steps":[{"id":"x","kind":"prompt","prompt_task":"a","provider":"k"}]}`, "free text"},

	{"PPSCHEMA-required", e, "", `name = -`, `"name" is missing`},
	{"PPSCHEMA-type", e, "/version", `version = 1`, "want string"},
	{"PPSCHEMA-pattern", e, "/id", `id = "Bad Id"`, "does not match"},
	{"PPSCHEMA-pattern", e, "/version", `version = "1.0"`, "does not match"},
	{"PPSCHEMA-enum", e, "/workflow/states/s/orchestration", `workflow.states.s.orchestration = "sideways"`, `"internal", "external"`},
	{"PPSCHEMA-enum", e, "/workflow/states/s/artifacts/x/mode", `workflow.states.s.artifacts.x.mode = "merge"`, `"replace", "append"`},
	{"PPSCHEMA-minimum", e, "/workflow/states/s/max_visits", `workflow.states.s.max_visits = 0`, "minimum"},
	{"PPSCHEMA-minimum", e, "/workflow/states/s/max_visits", `workflow.states.s.max_visits = -3`, "minimum"},
	{"PPSCHEMA-type", e, "/workflow/engine/budget/max_total_visits", `workflow.engine.budget.max_total_visits = "3"`, "want integer"},
	{"PPSCHEMA-type", e, "/workflow/engine/budget/max_tool_calls", `workflow.engine.budget.max_tool_calls = 1.5`, "want integer"},
	{"PPSCHEMA-minimum", e, "/workflow/engine/budget/max_wall_time_sec", `workflow.engine.budget.max_wall_time_sec = 0`, "minimum"},
	{"PPSCHEMA-additionalProperties", e, "/workflow/states/s/nope", `workflow.states.s.nope = 1`, "allowed: artifacts"},
	{"PPSCHEMA-additionalProperties", e, "/workflow/x_pawl", `workflow.x_pawl = {"erasable":true}`, "it belongs under workflow.engine"},
	{"PPSCHEMA-additionalProperties", e, "/tools/t/attempts", `tools.t.attempts = 2`, "it belongs under workflow.engine.x_pawl.tools.NAME"},
	{"PPSCHEMA-oneOf", e, "/skills/0", `skills = [{"dir":"x"}]`, "none of"},
	{"PPSCHEMA-format", w, "/compilation/created_at", `compilation = {"compiled_with":"x","created_at":"yesterday","schema":"y"}`, "date-time"},
	{"PPSCHEMA-published", w, "/tools/t/name", `tools.t.name = "My Tool"`, "1.9.0"},
}

func TestRules(t *testing.T) {
	t.Parallel()
	for i, c := range ruleCases {
		t.Run(fmt.Sprintf("%s_%d", c.code, i), func(t *testing.T) {
			t.Parallel()
			src := changedPack(t, c.change)
			if c.code == source.CodeNumber {
				// encoding/json rounds what the case is about.
				src = []byte(strings.Replace(string(src), "9007199254740992", "9007199254740993", 1))
			}
			p, ds, err := Load(src, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if (p == nil) != HasErrors(ds) {
				t.Errorf("pack %v with %v", p, ds)
			}
			i := slices.IndexFunc(ds, func(d Diagnostic) bool {
				return d.Code == c.code && d.Severity == c.sev && d.Pointer == c.pointer && strings.Contains(d.Message, c.text)
			})
			if i < 0 {
				t.Fatalf("no %s %s at %s with %q in:\n%s", c.sev, c.code, c.pointer, c.text, render(ds))
			}
			if ds[i].Line < 1 || ds[i].Column < 1 {
				t.Errorf("no position: %v", ds[i])
			}
		})
	}
}

func render(ds []Diagnostic) string {
	var b strings.Builder
	for _, d := range ds {
		fmt.Fprintf(&b, "%s [%s]\n", d, d.Pointer)
	}
	return b.String()
}

// TestEveryRuleHasACase: rules about reading are tested in read_test.go.
func TestEveryRuleHasACase(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range append(slices.Clone(ruleCases), readRuleCases...) {
		seen[c.code+string(c.sev)] = true
	}
	for _, r := range Rules() {
		if r.Error && !seen[r.Code+string(e)] {
			t.Errorf("no case for the error %s: %s", r.Code, r.Text)
		}
		if r.Warning && !seen[r.Code+string(w)] {
			t.Errorf("no case for the warning %s: %s", r.Code, r.Text)
		}
		if r.Error {
			delete(seen, r.Code+string(e))
		}
		if r.Warning {
			delete(seen, r.Code+string(w))
		}
	}
	for key := range maps.Keys(seen) {
		if !strings.HasPrefix(key, schemaPrefix) {
			t.Errorf("%s is tested but not listed", key)
		}
	}
}

// TestWhatIsAllowed: each rule accepts packs that are close to what it refuses.
func TestWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"delegation in a workflow": `prompts.a.tools = ["t","b"]
			agents = {"entry":"b","members":{"b":{}}}`,
		"prompts that no run reaches together disagree": `prompts.c = {"id":"c","name":"C","version":"1.0.0","system_template":"{{v}}","variables":[{"name":"v","type":"number","required":false}]}
			agents = {"entry":"c","members":{"c":{}}}`,
		"skills below a source":                     `skills = ["./skills","@acme/x"]` + "\n" + `workflow.states.s.skills = "./skills/a/b"`,
		"skills above a source":                     `skills = ["./skills/a/b"]` + "\n" + `workflow.states.s.skills = "./skills/"`,
		"skills above a source that has a neighbor": `skills = ["./skills/a/b","./skills/a-b"]` + "\n" + `workflow.states.s.skills = "./skills/a"`,
		"a circle through an external state": `workflow.states.s.control = "agent"
			workflow.states.s.on_event = {"Go":"e","Again":"s","Ask":"m"}
			workflow.states.m = {"prompt_task":"b","control":"agent","on_event":{"Next":"n"}}
			workflow.states.n = {"prompt_task":"b","control":"agent","orchestration":"external","on_event":{"Next":"m"}}`,
		"inline skill by name":       `skills = [{"name":"x","description":"d","instructions":"i"}]` + "\n" + `workflow.states.s.skills = "x"`,
		"no skills":                  `workflow.states.s.skills = "none"`,
		"x_pawl in full":             `workflow.engine.x_pawl = {"max_iterations":{"s":{"Again":2}},"max_steps":5,"max_reframes":2,"max_tokens":1000,"max_cost_usd":0.5,"prices":{"gpt":{"input":2.5,"cached":1.25,"output":10,"reasoning":12},"local/llama":{"input":0,"output":0}},"timeouts":{"s":{"after_sec":60,"event":"Go"}},"wall_time_excludes_waiting":true,"erasable":true,"retry":{"max_attempts":3,"initial_sec":1,"max_sec":60,"multiplier":1.5,"jitter":0,"non_retryable":["BAD"]},"model_calls":{"timeout_sec":90,"retry":4,"on_unknown":"return"},"no_progress":{"window":2,"over":["artifacts","tool_calls"]},"lease_sec":30,"sensitive":{"artifacts":["x"],"tools":["t"],"messages":true},"max_pending_steps":8,"max_artifact_bytes":65536,"max_run_artifact_bytes":1048576,"result_bindings":{"t":"x"},"tools":{"t":{"timeout_sec":300,"attempts":2,"on_error":"escalate","on_unknown":"retry"}}}`,
		"a tool's retry":             `workflow.engine.x_pawl = {"tools":{"t":{"attempts":3,"retry":{"initial_sec":0.25,"max_sec":2,"multiplier":3,"jitter":0.5,"non_retryable":["BAD","WORSE"]}}}}`,
		"retry as a number":          `workflow.engine.x_pawl = {"retry":5}`,
		"media with configuration":   `prompts.a.media = {"enabled":true,"supported_types":["image","text"],"image":{"max_size_mb":1}}`,
		"same eval id in two scopes": `evals = [{"id":"x","type":"y","trigger":"every_turn"}]` + "\n" + `prompts.a.evals = [{"id":"x","type":"y","trigger":"every_turn"}]`,
		"template with inner spaces": `template_engine.syntax = "{{ variable }}"`,
		"governance":                 `metadata = {"governance":{"autonomy_level":"suggests","reviews":[{"id":"r","type":"t","owner":"team","cadence":"P1Y"}],"obligations":[{"id":"o","obligation":"x","controls":[{"external":"y"}]}],"extensions":{"a":1}}}`,
		"features we have":           `template_engine.features = ["basic_substitution","fragments"]`,
		"metadata is open":           `metadata = {"domain":"x","language":"en","anything":{"deep":[1,null]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ds, err := Load(changedPack(t, change), Options{})
			ds = slices.DeleteFunc(ds, func(d Diagnostic) bool { return d.Code == ruleGovernance || d.Code == ruleEvals })
			if err != nil || len(ds) > 0 {
				t.Errorf("%v\n%s", err, render(ds))
			}
		})
	}
}

// TestMediaTypesMayHaveParameters: RFC 2045's parameters are no fault of a mode, and two
// ways to write one type are one slot.
func TestMediaTypesMayHaveParameters(t *testing.T) {
	t.Parallel()
	for _, change := range []string{
		`agents = {"entry":"a","members":{"a":{"input_modes":["text/plain; charset=utf-8"],"output_modes":["application/json;profile=\"x y\""]}}}`,
		"workflow.states.s.artifacts = {\"x\":{\"type\":\"text/plain; charset=utf-8\"}}\nworkflow.states.e.artifacts = {\"x\":{\"type\":\"Text/Plain;charset=utf-8\"}}",
	} {
		p, found, err := Load(changedPack(t, change), Options{})
		if err != nil || p == nil || len(found) > 0 {
			t.Errorf("%s: %v\n%s", change, err, render(found))
		}
	}
}
