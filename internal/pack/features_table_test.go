package pack

import "strings"

// treatment is the way in which this product treats a feature of the format.
type treatment string

const (
	// featureDone means that this product implements the feature.
	featureDone treatment = "done"
	// featurePassed means that the feature is passed to the program that executes turns, in the turn or its settings. This product itself does not
	// use it.
	featurePassed treatment = "passed to executors"
	// featureKept means that the feature is stored with the pack and shown to people. It has no effect on runs.
	featureKept treatment = "kept"
	// featureNotDone means that the feature is stored with the pack, but has no effect here. A warning reports
	// this.
	featureNotDone treatment = "kept, not done"
	// featureRefused means that a pack with the feature is not registered.
	featureRefused treatment = "refused"
)

// featureRow describes how this product treats one field.
type featureRow struct {
	// Path is the path of the field in the document. "*" means any key, and "[]" means any element. A
	// path includes all fields below it that have no row of their own.
	Path string
	// When restricts the row to some values of the field. If it is empty, the row is for all values.
	When      string
	Treatment treatment
	// Code is the code of the diagnostic. For featureNotDone it is a warning, for featureRefused an error.
	Code string
	// Note describes how the feature is implemented, or what to use instead.
	Note string
}

// featureRows is the table of the fields of the format: how this product treats each of them, as
// docs/reference/pack-format.md shows it. A test checks that it contains every field of the schema. Each
// row has a test of the treatment that it describes.
var featureRows = []featureRow{
	{"$schema", "", featureKept, "", "not followed; `--strict` names the schema"},
	{"id", "", featureDone, "", "with `version` it names one digest for ever"},
	{"name", "", featureKept, "", ""},
	{"version", "", featureDone, "", "with `id` it names one digest for ever"},
	{"description", "", featureKept, "", ""},
	{"metadata", "", featureKept, "", ""},
	{"metadata.governance", "", featureNotDone, "PPPAWL-38", "kept and shown; gates nothing here"},
	{"compilation", "", featureKept, "", ""},

	{"template_engine.version", "", featureKept, "", ""},
	{"template_engine.syntax", "`{{variable}}`", featureDone, "", "one pass, values are never expanded again"},
	{"template_engine.syntax", "any other", featureRefused, "PPPAWL-19", "rewrite the templates with double braces"},
	{"template_engine.features[]", "basic_substitution, fragments", featureDone, "", ""},
	{"template_engine.features[]", "conditionals, loops, filters", featureRefused, "PPPAWL-20", "move the logic into the workflow or the prompts"},
	{"fragments", "", featureDone, "", "nest to depth 8"},

	{"prompts", "", featureDone, "", "the key is the prompt's identity"},
	{"prompts.*.id", "other than its key", featureNotDone, "PP0001-2", "the key counts"},
	{"prompts.*.name", "", featureKept, "", "agent card"},
	{"prompts.*.description", "", featureKept, "", "agent card"},
	{"prompts.*.version", "", featureKept, "", "agent card"},
	{"prompts.*.system_template", "", featureDone, "", "rendered when the turn is fetched or assigned"},
	{"prompts.*.variables[]", "", featureDone, "", "one namespace per run: the union of the prompts that its entry can reach"},
	{"prompts.*.variables[].validation", "", featureDone, "", "at StartRun"},
	{"prompts.*.variables[].type", "not one of the five", featureNotDone, "PP0003-5", "values are not checked"},
	{"prompts.*.variables[].description", "", featureKept, "", ""},
	{"prompts.*.variables[].example", "", featureKept, "", ""},
	{"prompts.*.variables[].binding", "", featureNotDone, "PPPAWL-43", "the caller that starts the run fills the variable"},
	{"prompts.*.tools[]", "", featureDone, "", "a step with another tool is refused; an agent's key is a delegation"},
	{"prompts.*.tool_policy.blocklist", "", featureDone, "", "overrides `tools`"},
	{"prompts.*.tool_policy.max_tool_calls_per_turn", "", featureDone, "", "10 where there is a `tool_policy` without it"},
	{"prompts.*.tool_policy.tool_choice", "", featurePassed, "", "with `none` the sidecar refuses calls of a model (`TOOL_BLOCKED`)"},
	{"prompts.*.tool_policy.max_rounds", "", featureDone, "", "only where it is given; at the bound the attempt fails with `MAX_ROUNDS`"},
	{"prompts.*.pipeline", "", featurePassed, "", ""},
	{"prompts.*.parameters", "", featurePassed, "", ""},
	{"prompts.*.validators", "", featureDone, "", "check the output of a turn, in every executor; see [validators](../guides/validators.md)"},
	{"prompts.*.validators", "of another type, or with another parameter", featureNotDone, "PPPAWL-34", "kept; a run that can reach the prompt does not start"},
	{"prompts.*.validators[].params", "with a value that cannot be used", featureRefused, "PPPAWL-44", ""},
	{"prompts.*.validators[].fail_on_violation", "", featureNotDone, "PP0015-3", "deprecated and not read"},
	{"prompts.*.evals", "", featureDone, "", "judge turns, visits and runs in the sidecar; see [evals](../guides/evals.md)"},
	{"prompts.*.evals", "of another type, or with another trigger, parameter, threshold or when", featureNotDone, "PPPAWL-42", "kept; the eval does not run"},
	{"prompts.*.evals[].params", "with a value that cannot be used", featureRefused, "PPPAWL-45", ""},
	{"prompts.*.evals[].description", "", featureKept, "", ""},
	{"prompts.*.evals[].groups", "", featureKept, "", "named in the results; nothing selects by them"},
	{"prompts.*.evals[].extensions", "", featureKept, "", "kept, never read"},
	{"prompts.*.provider", "", featureDone, "", "the key of the model that `--provider KEY=MODEL` binds, in runs that the sidecar executes; workers find it in the turn's settings"},
	{"prompts.*.provider", "a key that is not bound here", featureNotDone, "PPPAWL-41", "registered; runs that can reach the prompt do not start with the execution SIDECAR (`PROVIDER_UNBOUND`)"},
	{"prompts.*.provider", "a key of the role embedding, tts, stt or image", featureNotDone, "PP0017-3", "a model answers with text; runs that can reach the prompt do not start with the execution SIDECAR (`PROVIDER_UNFIT`)"},
	{"prompts.*.provider", "no key of a requirement, nor `default`", featureRefused, "PP0017-1", "declare it"},
	{"prompts.*.extensions", "", featureKept, "", "kept, never read"},
	{"prompts.*.tested_models", "", featurePassed, "", ""},
	{"prompts.*.model_overrides", "", featurePassed, "", "the template of an override is checked, not rendered; with `max_cost_usd` its model needs a price"},
	{"prompts.*.media", "", featurePassed, "", ""},

	{"tools.*.name", "other than its key", featureNotDone, "PPPAWL-36", "the key is the tool's identity"},
	{"tools.*.description", "", featurePassed, "", ""},
	{"tools.*.parameters", "", featureDone, "", "the payload of a step is checked against it"},
	{"tools.*.action_scope", "", featureNotDone, "PPPAWL-39", "kept and shown; no call is held because of it"},
	{"tools.*.extensions", "", featureKept, "", "kept, never read"},
	{"evals", "", featureDone, "", "judge turns, visits and runs in the sidecar; see [evals](../guides/evals.md)"},
	{"evals", "of another type, or with another trigger, parameter, threshold or when", featureNotDone, "PPPAWL-42", "kept; the eval does not run"},
	{"evals[].params", "with a value that cannot be used", featureRefused, "PPPAWL-45", ""},
	{"evals[].description", "", featureKept, "", ""},
	{"evals[].groups", "", featureKept, "", "named in the results; nothing selects by them"},
	{"evals[].extensions", "", featureKept, "", "kept, never read"},
	{"requires.providers", "", featureDone, "", "`--provider KEY=MODEL` binds a key; `default` is the first model if it is not bound"},
	{"requires.providers", "a key that is not bound here", featureNotDone, "PPPAWL-40", ""},
	{"requires.providers[].capabilities", "", featureKept, "", "for people: Pawl does not know what a model can do"},
	{"requires.providers[].description", "", featureKept, "", ""},
	{"requires.providers[].required", "", featureKept, "", "a key that a prompt names has to be bound, required or not"},
	{"skills", "", featurePassed, "", "paths are not read"},

	{"workflow.version", "1, 2", featureDone, "", "a minimum: all features in both"},
	{"workflow.version", "3 and above", featureRefused, "PP0009-Q1", "use a newer sidecar"},
	{"workflow.entry", "", featureDone, "", ""},
	{"workflow.states", "", featureDone, "", ""},
	{"workflow.states.*.prompt_task", "", featureDone, "", ""},
	{"workflow.states.*.description", "", featureKept, "", ""},
	{"workflow.states.*.on_event", "", featureDone, "", "on a terminal state it never fires, with a warning"},
	{"workflow.states.*.persistence", "", featureDone, "", "whether the next visit gets the messages of earlier ones"},
	{"workflow.states.*.orchestration", "internal, external, hybrid", featureDone, "", "who may move the run"},
	{"workflow.states.*.orchestration", "composition, in a reachable state", featureNotDone, "PPPAWL-21", "registered; runs that could reach it do not start (`PACK_UNSUPPORTED`)"},
	{"workflow.states.*.composition", "in a reachable state", featureNotDone, "PPPAWL-21", "the same"},
	{"workflow.states.*.control", "", featureDone, "", "the side that acts after a transition of the agent; without it a conversation waits, and every other run goes on"},
	{"workflow.states.*.extensions", "", featureKept, "", "kept, never read"},
	{"workflow.states.*.skills", "", featurePassed, "", ""},
	{"workflow.states.*.terminal", "", featureDone, "", "the prompt still runs"},
	{"workflow.states.*.max_visits", "", featureDone, "", ""},
	{"workflow.states.*.on_max_visits", "", featureDone, "", "the chain is followed"},
	{"workflow.states.*.artifacts.*.type", "", featureDone, "", "JSON must parse, text must be UTF-8"},
	{"workflow.states.*.artifacts.*.mode", "", featureDone, "", ""},
	{"workflow.states.*.artifacts.*.description", "", featureKept, "", ""},
	{"workflow.engine.budget", "", featureDone, "", ""},
	{"workflow.engine.budget.*", "unknown keys", featureRefused, "PPPAWL-26", "check the spelling"},
	{"workflow.engine.x_pawl", "", featureDone, "", "unknown keys are errors"},
	{"workflow.engine.*", "unknown keys", featureNotDone, "PP0005-4", "no effect"},

	{"agents.entry", "", featureDone, "", "where runs of a pack without a workflow begin"},
	{"agents.members", "", featureDone, "", "every invocation is a run of its own"},
	{"agents.members.*.state", "", featureDone, "", ""},
	{"agents.members.*.description", "", featureKept, "", "agent card"},
	{"agents.members.*.tags", "", featureKept, "", "agent card"},
	{"agents.members.*.input_modes", "", featureKept, "", "agent card"},
	{"agents.members.*.output_modes", "", featureKept, "", "agent card"},
	{"agents.members.*.governance", "", featureNotDone, "PPPAWL-38", "kept and shown; gates nothing here"},
	{"agents.members.*.extensions", "", featureKept, "", "kept, never read"},

	{"compositions", "", featureNotDone, "PPPAWL-21", "checked by the rules of RFC 0010 and kept; not run"},
	{"compositions", "that no reachable state uses", featureNotDone, "PP0010-4", "checked and kept"},
}

// rowsOf returns the rows of a path. If the path has no rows, it returns the rows of the nearest path above it.
func rowsOf(path string) []featureRow {
	var best []featureRow
	depth := -1
	for _, r := range featureRows {
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
