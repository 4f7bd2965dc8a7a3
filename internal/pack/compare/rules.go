package compare

import (
	"cmp"
	"strconv"
	"strings"
)

// rule describes the effect of a change at a place. In its texts, {1}, {2} and {3} are the names that the first, the second and the third
// * match, and {old} and {new} are the values.
type rule struct {
	// at is the pattern of the place. Names are joined by /. * matches any name, and ** at the end matches everything below.
	at   string
	area string
	name string
	// isAtomic means that the value is one change. Its members are not compared separately.
	isAtomic bool
	// added, removed and changed are the effect on new runs. If added or removed is empty, the text of changed is used.
	added, removed, changed string
	// stillNeeded describes what runs of the old pack still need after the value was removed or changed.
	stillNeeded string
	// forks describes which forks get FORK_STATE_MISSING or FORK_ARTIFACT_MISMATCH after the value was removed or changed.
	forks string
	// bound means that the value is a number that limits runs. standard is the limit if the pack sets no number. nil means no limit.
	bound    bool
	standard *float64
}

// xpawl is the place of this product's own settings.
const xpawl = "workflow/engine/x_pawl/"

// rules are in the order of the report. The first rule that matches a place is used. The last rule matches every place, and its {1} is the
// whole place.
var rules = []rule{
	// States, events and exits.
	{at: "workflow/entry", area: "entry", name: "workflow", changed: "New runs begin in {new}."},
	{
		at: "workflow/states/*", area: "state", name: "{1}", added: "New runs can be in it if an event or an exit leads to it.",
		removed: "New runs have no such state.", forks: "A run that has visited {1} cannot be forked to NEW (FORK_STATE_MISSING).",
	},
	{
		at: "workflow/states/*/on_event/*", area: "event", name: "{2} of {1}", added: "In {1}, new runs can follow {2} to {new}.",
		removed: "In {1}, new runs refuse {2} (UNKNOWN_EVENT).", changed: "In {1}, {2} takes new runs to {new} instead of {old}.",
	},
	{at: "workflow/states/*/on_max_visits", area: "exit", name: "{1}", removed: "A new run that uses up the visits of {1} ends.", changed: "A new run that uses up the visits of {1} goes to {new}."},
	{at: "workflow/states/*/prompt_task", area: "state", name: "prompt of {1}", changed: "Turns in {1} of new runs execute the prompt {new}."},
	{at: "workflow/states/*/terminal", area: "state", name: "terminal of {1}", removed: "New runs go on from {1} by its events.", changed: "Whether new runs end in {1} changes: terminal is {new}."},
	{at: "workflow/states/*/orchestration", area: "state", name: "orchestration of {1}", removed: "In {1}, the executor of the turn emits the events of new runs.", changed: "Who emits the events of {1} in new runs changes to {new}."},
	{at: "workflow/states/*/persistence", area: "state", name: "persistence of {1}", removed: "A visit of {1} does not see the conversation of earlier visits.", changed: "The conversation of {1} in new runs is {new}."},
	{at: "workflow/states/*/control", area: "state", name: "control of {1}", changed: "After a transition of the agent into {1}, new runs follow control {new}: with user they wait for an input, with agent they go on."},
	{
		at: "workflow/states/*/artifacts/*", area: "artifact", name: "{2} of {1}", added: "{1} of new runs can write it.", removed: "{1} of new runs does not declare it.",
		forks: "A run in which {2} is set can be forked to NEW only if another state declares it alike (FORK_ARTIFACT_MISMATCH).",
	},
	{
		at: "workflow/states/*/artifacts/*/description", area: "text", name: "artifact {2} of {1}", changed: "Nothing but the description changes.",
	},
	{
		at: "workflow/states/*/artifacts/*/*", area: "artifact", name: "{3} of {2} in {1}", changed: "New runs write {2} in the new form.",
		forks: "A run in which {2} is set cannot be forked to NEW (FORK_ARTIFACT_MISMATCH).",
	},
	{at: xpawl + "timeouts/*/event", area: "timeout", name: "event after the time in {1}", changed: "After that time in {1}, {new} is emitted in new runs."},
	{at: xpawl + "timeouts/*", area: "timeout", name: "{1}", added: "An event ends long visits of {1} in new runs.", removed: "No timeout ends a visit of {1} in new runs."},
	{at: xpawl + "outcome/*", area: "state", name: "outcome of {1}", removed: "New runs that end in {1} are COMPLETED.", changed: "The status of new runs that end in {1} is {new}."},
	{at: xpawl + "on_budget", area: "exit", name: "on_budget", removed: "New runs that lack tokens or money end.", changed: "New runs that lack tokens or money go to {new} once."},

	// Bounds and budgets.
	{at: "workflow/states/*/max_visits", area: "bound", name: "max_visits of {1}", bound: true},
	{at: xpawl + "max_iterations/*/*", area: "bound", name: "max_iterations of {2} in {1}", bound: true},
	{at: "workflow/engine/budget/*", area: "budget", name: "{1}", bound: true},
	{at: xpawl + "max_steps", area: "budget", name: "max_steps", bound: true},
	{at: xpawl + "max_reframes", area: "budget", name: "max_reframes", bound: true},
	{at: xpawl + "max_tokens", area: "budget", name: "max_tokens", bound: true},
	{at: xpawl + "max_cost_usd", area: "budget", name: "max_cost_usd", bound: true},
	{at: xpawl + "max_pending_steps", area: "bound", name: "max_pending_steps", bound: true, standard: new(float64(8))},
	{at: xpawl + "max_artifact_bytes", area: "bound", name: "max_artifact_bytes", bound: true},
	{at: xpawl + "max_run_artifact_bytes", area: "bound", name: "max_run_artifact_bytes", bound: true},
	{at: xpawl + "no_progress", area: "bound", name: "no_progress", added: "Loops of new runs end if their visits end alike.", removed: "Loops of new runs may repeat without progress."},
	{at: xpawl + "no_progress/window", area: "bound", name: "window of no_progress", bound: true},
	{at: xpawl + "no_progress/**", area: "bound", name: "no_progress", isAtomic: true, changed: "Loops of new runs are compared by {new}."},
	{at: xpawl + "timeouts/*/after_sec", area: "timeout", name: "after_sec of {1}", bound: true},
	{at: xpawl + "wall_time_excludes_waiting", area: "budget", name: "wall_time_excludes_waiting", changed: "Whether the wall clock of new runs stops while they wait changes."},
	{at: "prompts/*/tool_policy/max_tool_calls_per_turn", area: "bound", name: "max_tool_calls_per_turn of {1}", bound: true},
	{at: "prompts/*/tool_policy/max_rounds", area: "bound", name: "max_rounds of {1}", bound: true},
	{at: "prompts/*/tool_policy", area: "bound", name: "tool_policy of {1}", added: "New runs make at most 10 tool calls in a turn of {1}, or the number that the policy sets.", removed: "New runs have no bound of tool calls in a turn of {1}, and nothing is blocked."},
	{at: xpawl + "retry/max_attempts", area: "bound", name: "attempts of a turn", bound: true, standard: new(float64(3))},
	{at: xpawl + "model_calls/retry/max_attempts", area: "bound", name: "attempts of a model call", bound: true, standard: new(float64(3))},
	{at: xpawl + "model_calls/timeout_sec", area: "bound", name: "timeout of a model call", bound: true, standard: new(float64(600))},
	{at: xpawl + "lease_sec", area: "bound", name: "lease_sec", changed: "A worker of new runs may be silent for {new} s before its turn is given to another.", removed: "The lease of turns in new runs is that of the sidecar."},
	{at: xpawl + "prices/*", area: "budget", name: "price of {1}", isAtomic: true, removed: "The cost of {1} in new runs follows the operator's prices.", changed: "The cost of {1} in new runs follows the new price."},

	// These rules are for tools, agents and the decisions about calls.
	{
		at: "tools/*", area: "tool", name: "{1}", added: "The sidecar must allow it (--allow-tool) and a worker serve it before prompts of new runs call it.",
		removed: "New runs do not call it.", stillNeeded: "Serve and allow {1} until the runs of OLD have ended.",
	},
	{
		at: "tools/*/parameters", area: "tool", name: "parameters of {1}", isAtomic: true, changed: "Calls of {1} in new runs are checked against the new schema.",
		stillNeeded: "Runs of OLD call {1} by the old schema: its worker gets both forms.",
	},
	{at: "tools/*/description", area: "tool", name: "description of {1}", changed: "Models of new runs read the new description."},
	{at: "prompts/*/tools/*", area: "tool", name: "{2} in the prompt {1}", added: "Turns of {1} in new runs can call it.", removed: "Calls in turns of {1} in new runs are refused (TOOL_NOT_LISTED)."},
	{at: "prompts/*/tool_policy/blocklist/*", area: "tool", name: "{2} in the blocklist of {1}", added: "Its calls in turns of {1} in new runs are refused (TOOL_BLOCKED).", removed: "Turns of {1} in new runs can call it if the prompt lists it."},
	{at: xpawl + "tools/*/approve", area: "approval", name: "{1}", removed: "Calls of {1} in new runs need no approval.", changed: "Which calls of {1} in new runs wait for a decision: {new}."},
	{at: xpawl + "tools/*/approval/timeout_sec", area: "approval", name: "timeout of {1}", bound: true, standard: new(float64(86400))},
	{at: xpawl + "tools/*/approval/**", area: "approval", name: "{1}", changed: "The approvals of {1} in new runs follow the new setting."},
	{at: xpawl + "tools/*/timeout_sec", area: "bound", name: "timeout of {1}", bound: true, standard: new(float64(300))},
	{at: xpawl + "tools/*/attempts", area: "bound", name: "attempts of {1}", bound: true, standard: new(float64(1))},
	{at: xpawl + "tools/*/retry/max_attempts", area: "bound", name: "attempts of {1}", bound: true},
	{at: xpawl + "tools/*/max_calls", area: "bound", name: "max_calls of {1}", bound: true},
	{at: xpawl + "tools/*/cost", area: "budget", name: "cost of a call of {1}", bound: true},
	{at: xpawl + "tools/*/*/**", area: "tool", name: "{2} of {1}", isAtomic: true, changed: "Calls of {1} in new runs follow the new setting."},
	{at: xpawl + "result_bindings/*", area: "tool", name: "result of {1}", removed: "Results of {1} are not written to an artifact in new runs.", changed: "Results of {1} in new runs are written to the artifact {new}."},
	{at: xpawl + "compensate_on/*", area: "tool", name: "compensate_on {1}", added: "{1} undoes the effects of a new run first.", removed: "{1} does not undo the effects of a new run."},
	{at: "agents/entry", area: "entry", name: "agents", changed: "Runs without a named agent begin with {new} if the pack has no workflow."},
	{
		at: "agents/members/*", area: "agent", name: "{1}", added: "New runs can start with it or delegate to it, and the card lists it.",
		removed: "Starts that name it are refused.", stillNeeded: "Runs of OLD delegate to their own {1}: nothing is to do.",
	},
	{at: "agents/members/*/state", area: "agent", name: "state of {1}", changed: "New runs of {1} begin in {new}.", removed: "New runs of {1} are one turn of its prompt."},
	{at: "agents/members/*/*/**", area: "text", name: "{2} of the agent {1}", isAtomic: true, changed: "The agent card changes."},

	// Prompts, models and variables.
	{at: "prompts/*", area: "prompt", name: "{1}", added: "States and agents of new runs can use it.", removed: "New runs do not have it."},
	{at: "prompts/*/system_template", area: "prompt", name: "template of {1}", changed: "Turns of {1} in new runs get the new text. Runs of OLD keep theirs, also after a restart."},
	{at: "fragments/*", area: "prompt", name: "fragment {1}", changed: "Prompts of new runs that use it get the new text."},
	{at: "prompts/*/variables/*", area: "variable", name: "{2} of {1}", added: "Starts may give it.", removed: "Starts that give it are refused (BAD_VARIABLES) unless another prompt has it."},
	{at: "prompts/*/variables/*/required", area: "variable", name: "required of {2} in {1}", changed: "Starts without it are refused (BAD_VARIABLES) if it is required and has no default."},
	{at: "prompts/*/variables/*/description", area: "text", name: "variable {2} of {1}", changed: "Nothing but the description changes."},
	{at: "prompts/*/variables/*/*/**", area: "variable", name: "{3} of {2} in {1}", isAtomic: true, changed: "The values of new runs are checked by the new declaration."},
	{at: xpawl + "models/*", area: "model", name: "prompt {1}", removed: "Turns of {1} in new runs use the model that the executor or the sidecar selects.", changed: "Turns of {1} in new runs call the model {new}."},
	{at: "prompts/*/provider", area: "model", name: "provider of {1}", removed: "Turns of {1} in new runs use the default provider.", changed: "Turns of {1} in new runs use the provider {new}. The sidecar must bind it (--provider)."},
	{at: "requires/providers/*", area: "model", name: "provider {1}", added: "The sidecar must bind it (--provider) before new runs use it.", removed: "New runs do not use it.", stillNeeded: "Keep the binding of {1} until the runs of OLD have ended."},
	{at: "requires/providers/*/**", area: "model", name: "provider {1}", changed: "New runs need a provider with the new requirement."},
	{at: "prompts/*/parameters/**", area: "model", name: "parameters of {1}", changed: "Model requests of {1} in new runs have the new value."},
	{at: "prompts/*/model_overrides/*/**", area: "model", name: "override of {1} for {2}", changed: "Turns of {1} with {2} in new runs follow it."},
	{at: xpawl + "model_calls/**", area: "model", name: "model_calls", changed: "Model calls of new runs follow the new setting."},
	{at: xpawl + "output_schema/*", area: "prompt", name: "output_schema of {1}", isAtomic: true, removed: "Outputs of {1} in new runs are not checked by a schema.", changed: "Outputs of {1} in new runs are checked by the new schema."},
	{at: xpawl + "chat/*", area: "state", name: "chat {1}", added: "{1} of new runs talks with a person.", removed: "{1} of new runs does not talk with a person."},
	{at: xpawl + "retry/**", area: "bound", name: "retry of turns", changed: "Pauses between attempts of new runs change."},
	{at: "prompts/*/validators/*", area: "validator", name: "{2} of {1}", added: "Outputs of {1} in new runs must pass it.", removed: "It does not refuse outputs of {1} in new runs."},
	{at: "prompts/*/validators/*/*/**", area: "validator", name: "{3} of {2} in {1}", isAtomic: true, changed: "Outputs of {1} in new runs are checked by the new rule."},
	{at: "prompts/*/evals/*", area: "eval", name: "{2} of {1}", added: "Turns of {1} in new runs get its result.", removed: "Turns of {1} in new runs have no such result."},
	{at: "prompts/*/evals/*/*/**", area: "eval", name: "{3} of {2} in {1}", isAtomic: true, changed: "New runs are judged by the new rule."},
	{at: "evals/*", area: "eval", name: "{1}", added: "New runs get its result.", removed: "New runs have no such result."},
	{at: "evals/*/*/**", area: "eval", name: "{2} of {1}", isAtomic: true, changed: "New runs are judged by the new rule. Their metric shows runs of OLD and of NEW together."},
	{at: xpawl + "sensitive/**", area: "reading", name: "sensitive", changed: "Who may read values of new runs changes. Values of runs of OLD stay as they are."},
	{at: xpawl + "erasable", area: "reading", name: "erasable", removed: "Values of new runs cannot be erased.", changed: "Whether values of new runs can be erased changes: {new}."},
	{at: "skills/*", area: "prompt", name: "skill {1}", isAtomic: true, changed: "Executors of new runs get the new list of skills."},
	{at: "compositions/*", area: "composition", name: "{1}", isAtomic: true, changed: "Compositions are kept and do not run."},

	// Names and descriptions have an effect on readers only.
	{at: "name", area: "text", name: "name", changed: "The name changes for readers."},
	{at: "description", area: "text", name: "description", changed: "The description changes for readers."},
	{at: "prompts/*/description", area: "text", name: "description of {1}", changed: "The description changes for readers."},
	{at: "prompts/*/name", area: "text", name: "name of {1}", changed: "The name changes for readers."},
	{at: "prompts/*/version", area: "text", name: "version of {1}", changed: "The version changes for readers."},
	{at: "workflow/states/*/description", area: "text", name: "description of {1}", changed: "The description changes for readers."},
	{at: "metadata/**", area: "text", name: "metadata", changed: "Metadata does not act on runs."},
	{at: "compilation/**", area: "text", name: "compilation", changed: "The origin of the pack does not act on runs."},
	{at: "$schema", area: "text", name: "$schema", changed: "It does not act on runs."},
	{at: "id", area: "text", name: "id", changed: "NEW is another pack."},
	{at: "version", area: "text", name: "version", changed: "Registration makes another version."},
	{at: "**", area: "other", name: "{1}", changed: "Programs that read the pack, and executors of new runs, get the new value."},
}

// ruleAt returns the first rule that matches a place, its rank, and the names that its * match. It returns nil if only the last rule
// matches.
func ruleAt(at []string) (r *rule, rank int, names []string) {
	for i := range rules[:len(rules)-1] {
		if matches(rules[i].at, at) {
			return &rules[i], i, wildcardNames(rules[i].at, at)
		}
	}
	return nil, 0, nil
}

// matches reports whether a place matches a pattern.
func matches(pattern string, at []string) bool {
	more := true
	for i := 0; more; i++ {
		var part string
		part, pattern, more = strings.Cut(pattern, "/")
		switch {
		case part == "**":
			return true
		case i >= len(at) || part != "*" && part != at[i], !more && i+1 < len(at):
			return false
		}
	}
	return true
}

// wildcardNames returns the names that the * of a pattern match.
func wildcardNames(pattern string, at []string) []string {
	var names []string
	for i, part := range strings.Split(pattern, "/") {
		if part == "*" {
			names = append(names, at[i])
		}
	}
	return names
}

// describe sets the texts of a change.
func (r *rule) describe(c *Change, names []string, was, is side) {
	pairs := []string{"{old}", displayValue(was), "{new}", displayValue(is)}
	for i, name := range names {
		pairs = append(pairs, "{"+strconv.Itoa(i+1)+"}", name)
	}
	fill := strings.NewReplacer(pairs...).Replace
	c.Area, c.Name = r.area, fill(r.name)
	switch {
	case r.bound:
		c.NewRuns, c.Bound = r.boundText(was, is)
	case c.Kind == Added:
		c.NewRuns = fill(cmp.Or(r.added, r.changed))
	case c.Kind == Removed:
		c.NewRuns = fill(cmp.Or(r.removed, r.changed))
	default:
		c.NewRuns = fill(r.changed)
	}
	if c.Kind != Added {
		c.RunningRuns, c.Forks = fill(r.stillNeeded), fill(r.forks)
	}
}

// boundText compares two bounds.
func (r *rule) boundText(was, is side) (text, effect string) {
	before, after := r.boundOf(was), r.boundOf(is)
	switch {
	case before == nil && after == nil, before != nil && after != nil && *before == *after:
		text = "Nothing changes: it is the bound that new runs have without it."
	case before == nil, after != nil && *after < *before:
		effect = Lowered
	default:
		effect = Raised
	}
	switch {
	case text != "":
	case after == nil:
		text = "New runs have no such bound."
	case is.present:
		text = "The bound of new runs is " + displayValue(is) + "."
	default:
		text = "The bound of new runs is the default, " + displayValue(side{*after, true}) + "."
	}
	return text, effect
}

// boundOf returns the limit that a value sets. nil means that there is none.
func (r *rule) boundOf(s side) *float64 {
	if n, ok := s.value.(float64); ok && s.present {
		return &n
	}
	return r.standard
}

// displayValue returns a value for use in a sentence. A string stays as it is. Other values are written as JSON.
func displayValue(s side) string {
	if !s.present {
		return "nothing"
	}
	if t, ok := s.value.(string); ok {
		return t
	}
	return text(s.value)
}
