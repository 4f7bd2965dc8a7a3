package feature

import (
	"slices"
	"strings"
)

// Treatment is the way in which this product treats a feature of the format.
type Treatment string

const (
	// Done means that this product implements the feature.
	Done Treatment = "done"
	// Handed means that the feature is passed to the program that executes turns, in the turn or its settings. This product itself does not
	// use it.
	Handed Treatment = "handed to executors"
	// Kept means that the feature is stored with the pack and shown to people. It has no effect on runs.
	Kept Treatment = "kept"
	// NotDone means that the feature is stored with the pack, but has no effect here. A warning reports
	// this.
	NotDone Treatment = "kept, not done"
	// Refused means that a pack with the feature is not registered.
	Refused Treatment = "refused"
)

// Row describes how this product treats one field.
type Row struct {
	// Path is the path of the field in the document. "*" means any key, and "[]" means any element. A
	// path includes all fields below it that have no row of their own.
	Path string
	// When restricts the row to some values of the field. If it is empty, the row is for all values.
	When      string
	Treatment Treatment
	// Code is the code of the diagnostic. For NotDone it is a warning, for Refused an error.
	Code string
	// Note describes how the feature is implemented, or what to use instead.
	Note string
}

// rows is the table. A test checks that it contains every field of the schema. Each row has a test of
// the treatment that it describes.
var rows = []Row{
	{"$schema", "", Kept, "", "not followed; `--strict` names the schema"},
	{"id", "", Done, "", "with `version` it names one digest for ever"},
	{"name", "", Kept, "", ""},
	{"version", "", Done, "", "with `id` it names one digest for ever"},
	{"description", "", Kept, "", ""},
	{"metadata", "", Kept, "", ""},
	{"metadata.governance", "", NotDone, "PPPAWL-38", "kept and shown; gates nothing here"},
	{"compilation", "", Kept, "", ""},

	{"template_engine.version", "", Kept, "", ""},
	{"template_engine.syntax", "`{{variable}}`", Done, "", "one pass, values are never expanded again"},
	{"template_engine.syntax", "any other", Refused, "PPPAWL-19", "rewrite the templates with double braces"},
	{"template_engine.features[]", "basic_substitution, fragments", Done, "", ""},
	{"template_engine.features[]", "conditionals, loops, filters", Refused, "PPPAWL-20", "move the logic into the workflow or the prompts"},
	{"fragments", "", Done, "", "nest to depth 8"},

	{"prompts", "", Done, "", "the key is the prompt's identity"},
	{"prompts.*.id", "other than its key", NotDone, "PP0001-2", "the key counts"},
	{"prompts.*.name", "", Kept, "", "agent card"},
	{"prompts.*.description", "", Kept, "", "agent card"},
	{"prompts.*.version", "", Kept, "", "agent card"},
	{"prompts.*.system_template", "", Done, "", "rendered when the turn is fetched or assigned"},
	{"prompts.*.variables[]", "", Done, "", "one namespace per run: the union of the prompts that its entry can reach"},
	{"prompts.*.variables[].validation", "", Done, "", "at StartRun"},
	{"prompts.*.variables[].type", "not one of the five", NotDone, "PP0003-5", "values are not checked"},
	{"prompts.*.variables[].description", "", Kept, "", ""},
	{"prompts.*.variables[].example", "", Kept, "", ""},
	{"prompts.*.variables[].binding", "", NotDone, "PPPAWL-43", "the caller that starts the run fills the variable"},
	{"prompts.*.tools[]", "", Done, "", "a step with another tool is refused; an agent's key is a delegation"},
	{"prompts.*.tool_policy.blocklist", "", Done, "", "overrides `tools`"},
	{"prompts.*.tool_policy.max_tool_calls_per_turn", "", Done, "", "10 where there is a `tool_policy` without it"},
	{"prompts.*.tool_policy.tool_choice", "", Handed, "", "with `none` the sidecar refuses calls of a model (`TOOL_BLOCKED`)"},
	{"prompts.*.tool_policy.max_rounds", "", Done, "", "only where it is given; at the bound the attempt fails with `MAX_ROUNDS`"},
	{"prompts.*.pipeline", "", Handed, "", ""},
	{"prompts.*.parameters", "", Handed, "", ""},
	{"prompts.*.validators", "", Done, "", "judges what a turn says, in every executor; see [validators](../guides/validators.md)"},
	{"prompts.*.validators", "of another type, or with another parameter", NotDone, "PPPAWL-34", "kept; no run that can reach the prompt begins"},
	{"prompts.*.validators[].params", "with a value that cannot be used", Refused, "PPPAWL-44", ""},
	{"prompts.*.validators[].fail_on_violation", "", NotDone, "PP0015-3", "deprecated and not read"},
	{"prompts.*.evals", "", NotDone, "PPPAWL-42", "handed on, and run by nothing here"},
	{"prompts.*.provider", "", Handed, "PPPAWL-41", "`x_pawl.models` names the model; with more than one provider a warning says that nothing routes"},
	{"prompts.*.provider", "no key of a requirement, nor `default`", Refused, "PP0017-1", "declare it"},
	{"prompts.*.extensions", "", Kept, "", "kept, never read"},
	{"prompts.*.tested_models", "", Handed, "", ""},
	{"prompts.*.model_overrides", "", Handed, "", "the template of an override is checked, not rendered; with `max_cost_usd` its model needs a price"},
	{"prompts.*.media", "", Handed, "", ""},

	{"tools.*.name", "other than its key", NotDone, "PPPAWL-36", "the key is the tool's identity"},
	{"tools.*.description", "", Handed, "", ""},
	{"tools.*.parameters", "", Done, "", "the payload of a step is checked against it"},
	{"tools.*.action_scope", "", NotDone, "PPPAWL-39", "kept and shown; no call is held because of it"},
	{"tools.*.extensions", "", Kept, "", "kept, never read"},
	{"evals", "", NotDone, "PPPAWL-42", "handed on, and run by nothing here"},
	{"requires.providers", "", NotDone, "PPPAWL-40", "kept and shown; nothing here binds them"},
	{"skills", "", Handed, "", "paths are not read"},

	{"workflow.version", "1, 2", Done, "", "a minimum: all features in both"},
	{"workflow.version", "3 and above", Refused, "PP0009-Q1", "use a newer sidecar"},
	{"workflow.entry", "", Done, "", ""},
	{"workflow.states", "", Done, "", ""},
	{"workflow.states.*.prompt_task", "", Done, "", ""},
	{"workflow.states.*.description", "", Kept, "", ""},
	{"workflow.states.*.on_event", "", Done, "", "on a terminal state it never fires, with a warning"},
	{"workflow.states.*.persistence", "", Done, "", "whether messages of earlier visits are handed to the next"},
	{"workflow.states.*.orchestration", "internal, external, hybrid", Done, "", "who may move the run"},
	{"workflow.states.*.orchestration", "composition, in a reachable state", NotDone, "PPPAWL-21", "registered; runs that could reach it do not start (`PACK_UNSUPPORTED`)"},
	{"workflow.states.*.composition", "in a reachable state", NotDone, "PPPAWL-21", "the same"},
	{"workflow.states.*.control", "agent", Done, "", "a run always goes on after a transition"},
	{"workflow.states.*.control", "user, in a state that a transition enters", NotDone, "PPPAWL-37", "registered; runs that could enter it do not start (`PACK_UNSUPPORTED`)"},
	{"workflow.states.*.extensions", "", Kept, "", "kept, never read"},
	{"workflow.states.*.skills", "", Handed, "", ""},
	{"workflow.states.*.terminal", "", Done, "", "the prompt still runs"},
	{"workflow.states.*.max_visits", "", Done, "", ""},
	{"workflow.states.*.on_max_visits", "", Done, "", "the chain is followed"},
	{"workflow.states.*.artifacts.*.type", "", Done, "", "JSON must parse, text must be UTF-8"},
	{"workflow.states.*.artifacts.*.mode", "", Done, "", ""},
	{"workflow.states.*.artifacts.*.description", "", Kept, "", ""},
	{"workflow.engine.budget", "", Done, "", ""},
	{"workflow.engine.budget.*", "unknown keys", Refused, "PPPAWL-26", "check the spelling"},
	{"workflow.engine.x_pawl", "", Done, "", "unknown keys are errors"},
	{"workflow.engine.*", "unknown keys", NotDone, "PP0005-4", "no effect"},

	{"agents.entry", "", Done, "", "where runs of a pack without a workflow begin"},
	{"agents.members", "", Done, "", "every invocation is a run of its own"},
	{"agents.members.*.state", "", Done, "", ""},
	{"agents.members.*.description", "", Kept, "", "agent card"},
	{"agents.members.*.tags", "", Kept, "", "agent card"},
	{"agents.members.*.input_modes", "", Kept, "", "agent card"},
	{"agents.members.*.output_modes", "", Kept, "", "agent card"},
	{"agents.members.*.governance", "", NotDone, "PPPAWL-38", "kept and shown; gates nothing here"},
	{"agents.members.*.extensions", "", Kept, "", "kept, never read"},

	{"compositions", "", NotDone, "PPPAWL-21", "checked by the rules of RFC 0010 and kept; not run"},
	{"compositions", "that no reachable state uses", NotDone, "PP0010-4", "checked and kept"},
}

// Rows returns how every field of the format is treated.
func Rows() []Row { return slices.Clone(rows) }

// Find returns the rows of a path. If the path has no rows, it returns the rows of the nearest path above it.
func Find(path string) []Row {
	var best []Row
	depth := -1
	for _, r := range rows {
		own := strings.TrimSuffix(r.Path, "[]")
		rest, under := strings.CutPrefix(path, own)
		if !under || rest != "" && (r.When != "" || rest[0] != '.' && rest[0] != '[') {
			continue
		}
		if len(own) > depth {
			best, depth = nil, len(own)
		}
		if len(own) == depth {
			best = append(best, r)
		}
	}
	return best
}
