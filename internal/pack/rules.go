package pack

import (
	"slices"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// Rule is one of the checks that [Load] makes in addition to the schema.
type Rule struct {
	// Code is the code of its diagnostics.
	Code string
	// Error and Warning are the severities of the rule's findings. If both are true, the severity
	// depends on the finding.
	Error, Warning bool
	// Text is the requirement of the rule.
	Text string
}

// These are the codes that more than one file uses. The codes of faults in reading are in package
// source.
const (
	ruleResource   = "PPPAWL-9"
	ruleSlot       = "PPPAWL-13"
	ruleNoGuard    = "PPPAWL-14"
	ruleNoEnd      = "PPPAWL-15"
	ruleVarType    = "PPPAWL-16"
	ruleXPawl      = "PPPAWL-17"
	ruleXPawlRef   = "PPPAWL-18"
	ruleSyntaxKind = "PPPAWL-19"
	ruleFeature    = "PPPAWL-20"
	ruleComposed   = "PPPAWL-21"
	ruleFragment   = "PPPAWL-23"
	ruleMedia      = "PPPAWL-24"
	ruleUnnameable = "PPPAWL-25"
	ruleBudgetKey  = "PPPAWL-26"
	ruleToolSchema = "PPPAWL-27"
	ruleLiteral    = "PPPAWL-28"
	ruleMore       = "PPPAWL-29"
	ruleArtifact   = "PPPAWL-30"
	ruleAgents     = "PPPAWL-31"
	ruleStepKind   = "PPPAWL-32"
	rulePrice      = "PPPAWL-33"
	ruleUnenforced = "PPPAWL-34"
	ruleOffered    = "PPPAWL-35"
	ruleToolName   = "PPPAWL-36"
	ruleControl    = "PPPAWL-37"
	ruleGovernance = "PPPAWL-38"
	ruleScope      = "PPPAWL-39"
	ruleBound      = "PPPAWL-40"
	ruleRouted     = "PPPAWL-41"
	ruleEvals      = "PPPAWL-42"
	ruleBinding    = "PPPAWL-43"
	ruleValidator  = "PPPAWL-44"
	ruleEval       = "PPPAWL-45"

	schemaPrefix = "PPSCHEMA-"
)

// CodeEvalNotRun is the code of the warning about an eval that the sidecar does not run.
const CodeEvalNotRun = ruleEvals

var rules = []Rule{
	{source.CodeSize, true, false, "the document is at most 1 MiB"},
	{source.CodeUTF8, true, false, "the document is valid UTF-8"},
	{source.CodeDepth, true, false, "objects and arrays nest at most 64 deep"},
	{source.CodeScalar, true, false, "a string, number or key is at most 256 KiB as written"},
	{source.CodeNodes, true, false, "the document holds at most 100 000 values, YAML aliases expanded"},
	{source.CodeDuplicate, true, false, "an object names each member once"},
	{source.CodeSyntax, true, false, "the document is well-formed JSON or YAML"},
	{source.CodeOneDoc, true, false, "a file holds one document"},
	{ruleResource, true, false, "the document is a pack, not an authoring resource with apiVersion and kind (RFC 0002)"},
	{source.CodeNotJSON, true, false, "YAML maps cleanly to JSON: string keys, no merge keys, no foreign tags, no NaN, no recursive alias; strings have no lone surrogates"},
	{source.CodeNumber, true, false, "integers lie within ±2^53 and other numbers in the range of a double"},
	{source.CodeRoot, true, false, "the document is one object"},
	{ruleSlot, true, false, "states that declare the same artifact give it the same type and mode"},
	{ruleNoGuard, false, true, "on_max_visits stands beside max_visits"},
	{ruleNoEnd, false, true, "a terminal state can be reached from every entry"},
	{ruleVarType, true, true, "prompts reachable from one entry declare a variable with one type (error) and one default (warning)"},
	{ruleXPawl, true, true, "engine.x_pawl has only known keys with values of their type and range (error) that have an effect (warning)"},
	{ruleXPawlRef, true, true, "engine.x_pawl names states, events, artifacts and tools that exist"},
	{ruleSyntaxKind, true, false, "template_engine.syntax is {{variable}}"},
	{ruleFeature, true, false, "template_engine.features asks for nothing beyond basic_substitution and fragments"},
	{ruleComposed, false, true, "no reachable state is orchestrated by a composition: runs that could reach it are refused at their start"},
	{ruleFragment, true, false, "fragments exist, nest at most 8 deep, have no cycle and expand to at most 1 MiB"},
	{ruleMedia, false, true, "an artifact's type is a media type"},
	{ruleUnnameable, false, true, "artifacts and fragments have names that a template can write"},
	{ruleBudgetKey, true, false, "engine.budget has only known keys"},
	{ruleToolSchema, true, false, "a tool's parameters are a JSON Schema without outside references"},
	{ruleLiteral, false, true, "double braces that are not a placeholder are meant literally"},
	{ruleMore, false, true, "at most 200 findings are listed"},
	{ruleArtifact, false, true, "an artifact that a template uses is declared by some state"},
	{ruleAgents, true, false, "agents start in at most 256 different states"},
	{ruleStepKind, true, false, "a step's kind is known or has a vendor prefix"},
	{rulePrice, false, true, "a pack with a budget of cost prices the models that its prompts have overrides for"},
	{ruleUnenforced, false, true, "the types and parameters of a prompt's validators are known here; with others no run begins"},
	{ruleOffered, false, true, "a terminal state does not offer again, without dedupe, a tool that an earlier state offers"},
	{ruleToolName, false, true, "a tool's name is its key, by which it is called, bounded and approved"},
	{ruleControl, false, true, "if a state has control, each state that a transition enters has it"},
	{ruleGovernance, false, true, "governance is not relied on: it is kept and shown, and gates nothing here"},
	{ruleScope, false, true, "a tool's action_scope is not relied on: no call is held because of it"},
	{ruleBound, false, true, "each provider requirement is bound to a model by the operator"},
	{ruleRouted, false, true, "the provider key that a prompt names is bound to a model: otherwise no run that the sidecar executes starts"},
	{ruleEvals, false, true, "an eval that is on has a type, parameters, a trigger, a threshold and a when that are known here; another one does not run"},
	{ruleBinding, false, true, "a variable has no binding: its value is what the start of the run gives"},
	{ruleValidator, true, false, "the parameters of a validator have usable values"},
	{ruleEval, true, false, "the evals of a scope are at most 100, their parameters have usable values, and their metrics do not take a name of the sidecar's"},

	{"PP0001-1", true, true, "a prompt's tools are tools of the pack or agent members"},
	{"PP0001-2", false, true, "a prompt's id is its key"},
	{"PP0003-1", false, true, "names used in a template are declared"},
	{"PP0003-2", false, true, "a required variable has no default"},
	{"PP0003-3", true, true, "validation is satisfiable and default (error) and example (warning) pass it"},
	{"PP0003-4", true, false, "a prompt declares a variable once"},
	{"PP0003-5", false, true, "a variable's type is string, number, boolean, object or array"},
	{"PP0003-6", false, true, "variables are not called artifacts or fragments"},
	{"PP0004-1", true, false, "every supported media type has its configuration object"},
	{"PP0004-2", true, false, "a text part has text, another part has media"},
	{"PP0004-3", true, false, "media names exactly one of file_path, url and base64"},
	{"PP0005-1", true, false, "workflow.entry is a state and its prompt exists"},
	{"PP0005-2", true, true, "prompt_task and event targets exist (error); no cycle can run for ever (warning)"},
	{"PP0005-3", false, true, "event names are PascalCase"},
	{"PP0005-4", false, true, "engine has only known properties"},
	{"PP0005-Q3", false, true, "every state can be reached"},
	{"PP0006-1", true, false, "an eval id is unique in its scope"},
	{"PP0006-2", false, true, "sample_percentage stands beside a sampling trigger"},
	{"PP0006-3", true, true, "a metric's range has min <= max (error) and its name is snake_case (warning)"},
	{"PP0007-1", true, false, "agents.entry is a prompt"},
	{"PP0007-2", true, false, "every agent member is a prompt"},
	{"PP0007-3", false, true, "agents.entry is one of the members; it is exposed anyway"},
	{"PP0007-4", false, true, "an agent's tool named like a prompt is a member"},
	{"PP0007-5", true, false, "an agent does not list itself as a tool"},
	{"PP0007-6", false, true, "input and output modes look like type/subtype"},
	{"PP0008-1", false, true, "inline skills have different names"},
	{"PP0008-3", true, true, "a state's skills is a declared path (warning if not) or \"none\", never empty (error)"},
	{"PP0009-1", false, true, "a terminal state declares no events"},
	{"PP0009-2", true, true, "on_max_visits is a state (error), forced exits do not form a cycle (error) nor a chain (warning)"},
	{"PP0009-3", true, false, "a state names each artifact once"},
	{"PP0009-4", false, true, "a state declares the artifacts that its prompt uses"},
	{"PP0009-5", false, true, "max_total_visits covers the guards of the reachable states"},
	{"PP0009-7", false, true, "a state without events says terminal: true"},
	{"PP0009-Q1", true, false, "workflow.version is 1 or 2"},
	{"PP0010-1", true, false, "compositions do not take reserved names"},
	{"PP0010-2", true, false, "a composition state names its composition"},
	{"PP0010-3", true, true, "any other state names a prompt_task (error) and no composition (error); a composition state no prompt_task (warning)"},
	{"PP0010-4", true, true, "a state's composition exists (error) and every composition is used (warning)"},
	{"PP0010-5", true, false, "step ids are unique in a composition, nested branches included"},
	{"PP0010-6", true, false, "a step id is an identifier"},
	{"PP0010-7", true, false, "a step's prompt_task exists"},
	{"PP0010-8", true, false, "a step's tools exist"},
	{"PP0010-9", true, true, "then, else, depends_on and output name steps (error); a step after a branch or parallel declares its join (warning)"},
	{"PP0010-10", true, false, "eval modifiers name evals of the pack"},
	{"PP0010-11", true, false, "references start at input or at the output of an earlier step"},
	{"PP0010-12", true, false, "an agent step has a termination"},
	{"PP0010-13", true, true, "a parallel step has two branches and a reducer (error) of a known strategy (warning)"},
	{"PP0010-14", true, false, "a predicate has one of the allowed forms"},
	{"PP0010-15", true, false, "the step graph has no cycle"},
	{"PP0011-1", true, false, "an agent's state is a state of the workflow"},
	{"PP0011-2", true, false, "an agent with a state needs a workflow"},
	{"PP0012-1", true, false, "the keys of provider requirements are unique; a key alone counts"},
	{"PP0012-2", false, true, "a requirement's role is llm, embedding, tts, stt, image, inference, or begins with x-"},
	{"PP0012-3", false, true, "a requirement that is a key alone has letters, digits, _ and -"},
	{"PP0013-4", true, false, "vocabularies map prefixes to absolute IRIs"},
	{"PP0013-5", false, true, "the prefix of a term is declared in vocabularies or well known"},
	{"PP0014-3", false, true, "a terminal state does not say control: agent"},
	{"PP0014-4", false, true, "a cycle of states with control: agent has max_visits, or leads to a state of the user or to an end"},
	{"PP0015-3", false, true, "a validator has no fail_on_violation: it always enforces"},
	{"PP0016-2", true, false, "the ids of obligations, and those of reviews, are unique in their object"},
	{"PP0016-4", true, false, "an obligation's or a review's eval is an eval of the pack or of a prompt"},
	{"PP0016-5", true, false, "validator ids are unique in the pack, and an obligation's validator is one of them"},
	{"PP0016-6", true, false, "an obligation's field is a property of governance that is declared"},
	{"PP0016-7", true, false, "what a review satisfies are obligations that hold for the same agent"},
	{"PP0016-10", false, true, "the prefix of a term of an obligation or a review is declared or well known"},
	{"PP0017-1", true, false, "a provider is the key of a requirement, or default"},
	{"PP0017-2", false, true, "only prompt and agent steps have a provider"},
	{"PP0017-3", false, true, "the provider of a prompt has a role that a model can meet"},
	{"PP0017-4", false, true, "a provider that is referred to is required"},
	{"PP0017-5", false, true, "a state's prompt, and a prompt step without output_schema, has a provider of the role llm"},
}

// placedAtKey are the codes of rules about the name of a member. The position of such a finding is the
// name and not the value.
var placedAtKey = map[string]bool{
	source.CodeDuplicate: true, ruleUnnameable: true, ruleBudgetKey: true, ruleXPawlRef: true,
	"PP0005-3": true, "PP0005-4": true, "PP0005-Q3": true, "PP0007-2": true,
	"PP0010-1": true, "PP0017-2": true, "PP0015-3": true, schemaPrefix + "additionalProperties": true,
}

// Rules returns every rule that has a code of its own, in the order of the reference page. Rules of the
// schema have the code PPSCHEMA-<keyword> instead.
func Rules() []Rule { return slices.Clone(rules) }
