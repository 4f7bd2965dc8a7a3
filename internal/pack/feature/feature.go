package feature

import (
	"slices"
	"strings"
)

// Treatment is what becomes of a feature of the format.
type Treatment string

const (
	// Enforced: this product acts on it.
	Enforced Treatment = "enforced"
	// PassedThrough: kept with the pack and given to whatever executes turns, or shown
	// in the agent card; nothing here acts on it.
	PassedThrough Treatment = "handed on"
	// Refused: a pack that uses it is not registered.
	Refused Treatment = "refused"
	// Warned: it has no effect, and a warning says so.
	Warned Treatment = "warned"
)

// Row is one row of the table of what is supported.
type Row struct {
	// Path of the fields in the document: "*" stands for any key, "[]" for any
	// element. A path covers everything below it that has no row of its own.
	Path string
	// When restricts the row to some values of the field; empty = all.
	When      string
	Treatment Treatment
	// Note says how, or what to do instead.
	Note string
}

// rows is the table; a test walks the schema and finds every field in it,
// and every row has a test of what it says.
var rows = []Row{
	{"$schema", "", PassedThrough, "not followed; `--strict` names the schema"},
	{"id", "", Enforced, "with `version` it names one digest for ever"},
	{"name", "", PassedThrough, ""},
	{"version", "", Enforced, "with `id` it names one digest for ever"},
	{"description", "", PassedThrough, ""},
	{"metadata", "", PassedThrough, ""},
	{"metadata.governance", "", Warned, "kept and shown; gates nothing here"},
	{"compilation", "", PassedThrough, ""},

	{"template_engine.version", "", PassedThrough, ""},
	{"template_engine.syntax", "`{{variable}}`", Enforced, "one pass, values are never expanded again"},
	{"template_engine.syntax", "any other", Refused, "rewrite the templates with double braces"},
	{"template_engine.features[]", "basic_substitution, fragments", Enforced, ""},
	{"template_engine.features[]", "conditionals, loops, filters", Refused, "move the logic into the workflow or the prompts"},
	{"fragments", "", Enforced, "nest to depth 8"},

	{"prompts", "", Enforced, "the key is the prompt's identity"},
	{"prompts.*.id", "other than its key", Warned, "the key counts"},
	{"prompts.*.name", "", PassedThrough, "agent card"},
	{"prompts.*.description", "", PassedThrough, "agent card"},
	{"prompts.*.version", "", PassedThrough, "agent card"},
	{"prompts.*.system_template", "", Enforced, "rendered when the turn is fetched or assigned"},
	{"prompts.*.variables[]", "", Enforced, "one namespace per run: the union of the prompts that its entry can reach"},
	{"prompts.*.variables[].validation", "", Enforced, "at StartRun"},
	{"prompts.*.variables[].type", "not one of the five", Warned, "values are not checked"},
	{"prompts.*.variables[].description", "", PassedThrough, ""},
	{"prompts.*.variables[].example", "", PassedThrough, ""},
	{"prompts.*.variables[].binding", "", Warned, "the caller that starts the run fills the variable"},
	{"prompts.*.tools[]", "", Enforced, "a step with another tool is refused; an agent's key is a delegation"},
	{"prompts.*.tool_policy.blocklist", "", Enforced, "overrides `tools`"},
	{"prompts.*.tool_policy.max_tool_calls_per_turn", "", Enforced, "10 where there is a `tool_policy` without it"},
	{"prompts.*.tool_policy.tool_choice", "", PassedThrough, ""},
	{"prompts.*.tool_policy.max_rounds", "", PassedThrough, ""},
	{"prompts.*.pipeline", "", PassedThrough, ""},
	{"prompts.*.parameters", "", PassedThrough, ""},
	{"prompts.*.validators", "", Warned, "handed on, and enforced by nothing here"},
	{"prompts.*.validators[].fail_on_violation", "", Warned, "deprecated and not read"},
	{"prompts.*.evals", "", Warned, "handed on, and run by nothing here"},
	{"prompts.*.provider", "", PassedThrough, "`x_pawl.models` names the model; with more than one provider a warning says that nothing routes"},
	{"prompts.*.provider", "no key of a requirement, nor `default`", Refused, "declare it"},
	{"prompts.*.extensions", "", PassedThrough, "kept, never read"},
	{"prompts.*.tested_models", "", PassedThrough, ""},
	{"prompts.*.model_overrides", "", PassedThrough, "the template of an override is checked, not rendered; with `max_cost_usd` its model needs a price"},
	{"prompts.*.media", "", PassedThrough, ""},

	{"tools.*.name", "other than its key", Warned, "the key is the tool's identity"},
	{"tools.*.description", "", PassedThrough, ""},
	{"tools.*.parameters", "", Enforced, "the payload of a step is checked against it"},
	{"tools.*.action_scope", "", Warned, "kept and shown; no call is held because of it"},
	{"tools.*.extensions", "", PassedThrough, "kept, never read"},
	{"evals", "", Warned, "handed on, and run by nothing here"},
	{"requires.providers", "", Warned, "kept and shown; nothing here binds them"},
	{"skills", "", PassedThrough, "paths are not read"},

	{"workflow.version", "1, 2", Enforced, "a minimum: all features in both"},
	{"workflow.version", "3 and above", Refused, "use a newer sidecar"},
	{"workflow.entry", "", Enforced, ""},
	{"workflow.states", "", Enforced, ""},
	{"workflow.states.*.prompt_task", "", Enforced, ""},
	{"workflow.states.*.description", "", PassedThrough, ""},
	{"workflow.states.*.on_event", "", Enforced, "on a terminal state it never fires, with a warning"},
	{"workflow.states.*.persistence", "", Enforced, "whether messages of earlier visits are handed to the next"},
	{"workflow.states.*.orchestration", "internal, external, hybrid", Enforced, "who may move the run"},
	{"workflow.states.*.orchestration", "composition, in a reachable state", Warned, "registered; runs that could reach it do not start (`PACK_UNSUPPORTED`)"},
	{"workflow.states.*.composition", "in a reachable state", Warned, "the same"},
	{"workflow.states.*.control", "agent", Enforced, "a run always goes on after a transition"},
	{"workflow.states.*.control", "user, in a state that a transition enters", Warned, "registered; runs that could enter it do not start (`PACK_UNSUPPORTED`)"},
	{"workflow.states.*.extensions", "", PassedThrough, "kept, never read"},
	{"workflow.states.*.skills", "", PassedThrough, ""},
	{"workflow.states.*.terminal", "", Enforced, "the prompt still runs"},
	{"workflow.states.*.max_visits", "", Enforced, ""},
	{"workflow.states.*.on_max_visits", "", Enforced, "the chain is followed"},
	{"workflow.states.*.artifacts.*.type", "", Enforced, "JSON must parse, text must be UTF-8"},
	{"workflow.states.*.artifacts.*.mode", "", Enforced, ""},
	{"workflow.states.*.artifacts.*.description", "", PassedThrough, ""},
	{"workflow.engine.budget", "", Enforced, ""},
	{"workflow.engine.budget.*", "unknown keys", Refused, "check the spelling"},
	{"workflow.engine.x_pawl", "", Enforced, "unknown keys are errors"},
	{"workflow.engine.*", "unknown keys", Warned, "no effect"},

	{"agents.entry", "", Enforced, "where runs of a pack without a workflow begin"},
	{"agents.members", "", Enforced, "every invocation is a run of its own"},
	{"agents.members.*.state", "", Enforced, ""},
	{"agents.members.*.description", "", PassedThrough, "agent card"},
	{"agents.members.*.tags", "", PassedThrough, "agent card"},
	{"agents.members.*.input_modes", "", PassedThrough, "agent card"},
	{"agents.members.*.output_modes", "", PassedThrough, "agent card"},
	{"agents.members.*.governance", "", Warned, "kept and shown; gates nothing here"},
	{"agents.members.*.extensions", "", PassedThrough, "kept, never read"},

	{"compositions", "that no reachable state uses", Warned, "checked and kept"},
}

// Rows lists what becomes of every field of the format.
func Rows() []Row { return slices.Clone(rows) }

// Table renders [Rows] as a Markdown table.
func Table() string {
	var b strings.Builder
	b.WriteString("| field | values | treatment | note |\n|---|---|---|---|\n")
	for _, f := range rows {
		b.WriteString("| `" + f.Path + "` | " + f.When + " | *" + string(f.Treatment) + "* | " + f.Note + " |\n")
	}
	return b.String()
}
