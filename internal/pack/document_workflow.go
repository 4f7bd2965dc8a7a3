package pack

import "encoding/json"

// Workflow is the state machine of a pack (PromptPack RFC 0005 and RFC 0009).
type Workflow struct {
	Version int64             `json:"version"`
	Entry   string            `json:"entry"`
	States  map[string]*State `json:"states"`
	Engine  *Engine           `json:"engine"`
}

// State is one workflow state.
type State struct {
	PromptTask  string            `json:"prompt_task"`
	Description string            `json:"description"`
	OnEvent     map[string]string `json:"on_event"`
	// Persistence is transient (default) or persistent.
	Persistence string `json:"persistence"`
	// Orchestration is internal (default), external, hybrid or composition.
	Orchestration string `json:"orchestration"`
	// Control is "user" or "agent". It declares which of them acts after a transition into the state.
	// "" means that it is not declared (PromptPack RFC 0014).
	Control     string  `json:"control"`
	Composition string  `json:"composition"`
	Skills      *string `json:"skills"`
	Terminal    bool    `json:"terminal"`
	// MaxVisits bounds the number of visits of the state. 0 means that there is no bound.
	MaxVisits   int64                `json:"max_visits"`
	OnMaxVisits *string              `json:"on_max_visits"`
	Artifacts   map[string]*Artifact `json:"artifacts"`
}

// Ends reports whether the run cannot leave the state, because the state is terminal or has no events.
func (s *State) Ends() bool { return s.Terminal || len(s.OnEvent) == 0 }

// Artifact declares an artifact of the workflow (PromptPack RFC 0009).
type Artifact struct {
	// Type is a media type.
	Type        string `json:"type"`
	Description string `json:"description"`
	// Mode is replace (default) or append.
	Mode string `json:"mode"`
}

// Engine contains budgets and runtime settings. Unknown keys are ignored.
type Engine struct {
	Budget *Budget `json:"budget"`
	XPawl  *XPawl  `json:"x_pawl"`
}

// Budget limits a run (PromptPack RFC 0009). A nil field means no limit.
type Budget struct {
	MaxTotalVisits *int64 `json:"max_total_visits"`
	MaxToolCalls   *int64 `json:"max_tool_calls"`
	MaxWallTimeSec *int64 `json:"max_wall_time_sec"`
}

// XPawl is engine.x_pawl: settings of this product. Unknown keys are errors.
type XPawl struct {
	// MaxIterations bounds, for a state and an event, how often the edge of the event may be followed.
	MaxIterations map[string]map[string]int64 `json:"max_iterations"`
	MaxSteps      *int64                      `json:"max_steps"`
	MaxReframes   *int64                      `json:"max_reframes"`
	MaxTokens     *int64                      `json:"max_tokens"`
	MaxCostUSD    *float64                    `json:"max_cost_usd"`
	// Prices maps a model to its price. The key is the name that executors use for the model.
	Prices map[string]Price `json:"prices"`
	// Models maps the key of a prompt to the model that the turns of the prompt call. "*" is for all
	// other prompts.
	Models map[string]string `json:"models"`
	// Chat are the states whose turns talk with a person. The text of the model is sent to the person,
	// and the run waits for the next input.
	Chat []string `json:"chat"`
	// OutputSchema maps the key of a prompt to the JSON Schema of the prompt's turn outputs.
	OutputSchema map[string]json.RawMessage `json:"output_schema"`
	// Timeouts emit a declared event after a given time in a state.
	Timeouts                map[string]StateTimeout `json:"timeouts"`
	WallTimeExcludesWaiting bool                    `json:"wall_time_excludes_waiting"`
	Retry                   *Retry                  `json:"retry"`
	LeaseSec                *int64                  `json:"lease_sec"`
	// ModelCalls configures model calls. nil means the defaults of the machine.
	ModelCalls *ModelCalls `json:"model_calls"`
	// OnBudget is the state that is entered, at most once, if max_tokens or max_cost_usd does not cover
	// a step. "" means that the run ends instead.
	OnBudget string `json:"on_budget"`
	// NoProgress ends loops that repeat without progress. nil means that these loops may repeat.
	NoProgress *NoProgress `json:"no_progress"`
	// MaxPendingSteps bounds the pending steps of a run. nil means 8.
	MaxPendingSteps  *int64 `json:"max_pending_steps"`
	MaxArtifactBytes *int64 `json:"max_artifact_bytes"`
	// MaxRunArtifactBytes bounds the sum of all artifacts of a run. nil means the operator's limit.
	MaxRunArtifactBytes *int64 `json:"max_run_artifact_bytes"`
	// ResultBindings maps a tool to the artifact into which the accepted answers of the tool are
	// written.
	ResultBindings map[string]string     `json:"result_bindings"`
	Tools          map[string]ToolLimits `json:"tools"`
	// CompensateOn lists the events that trigger compensation: the effects of the run are undone before
	// such an event is followed.
	CompensateOn []string `json:"compensate_on"`
	// Outcome maps a terminal state to the status of a run that ends in it: completed (default) or
	// failed.
	Outcome map[string]string `json:"outcome"`
	// Sensitive lists the values that only the executor and principals with the scope values:sensitive
	// can read. nil means that there are none.
	Sensitive *Sensitive `json:"sensitive"`
	// Erasable means that the values of the runs are encrypted with a key of their own and can be
	// erased.
	Erasable bool `json:"erasable"`
}

// ModelOf returns the model that the turns of a prompt call. It returns "" if the pack does not set one.
func (x *XPawl) ModelOf(prompt string) string {
	if name, ok := x.Models[prompt]; ok {
		return name
	}
	return x.Models[anyPrompt]
}

// anyPrompt is the key of x_pawl.models for all prompts without their own key.
const anyPrompt = "*"

// Price is the price of one model in x_pawl.prices, in US dollars for a million tokens.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
	// Cached is the price of cached input. nil means the price of Input.
	Cached *float64 `json:"cached"`
	// Reasoning is the price of reasoning output. nil means the price of Output.
	Reasoning *float64 `json:"reasoning"`
}

// Sensitive is x_pawl.sensitive. It contains names of variables and artifacts, and names of tools whose
// payloads and answers are sensitive.
type Sensitive struct {
	Variables []string `json:"variables"`
	Artifacts []string `json:"artifacts"`
	Tools     []string `json:"tools"`
	// Messages means that all messages to and from turns are sensitive.
	Messages bool `json:"messages"`
}

// StateTimeout is x_pawl.timeouts of one state.
type StateTimeout struct {
	AfterSec int64  `json:"after_sec"`
	Event    string `json:"event"`
}

// Retry bounds the attempts of a turn, of a tool's step or of a model call. In a pack it is a number,
// or an object that also contains the pauses.
type Retry struct {
	// MaxAttempts counts the first execution; nil means 3.
	MaxAttempts *int64 `json:"max_attempts"`
	// InitialSec is the pause before the second attempt, in seconds. nil means 1.
	InitialSec *float64 `json:"initial_sec"`
	// MaxSec bounds each pause, in seconds. nil means 60.
	MaxSec *float64 `json:"max_sec"`
	// Multiplier is the factor between a pause and the next pause. nil means 2.
	Multiplier *float64 `json:"multiplier"`
	// Jitter changes a pause by up to this fraction in either direction. nil means 0.2.
	Jitter *float64 `json:"jitter"`
	// NonRetryable are the error codes after which no further attempt is made.
	NonRetryable []string `json:"non_retryable"`
}

// UnmarshalJSON accepts both forms.
func (r *Retry) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] != '{' {
		return json.Unmarshal(raw, &r.MaxAttempts)
	}
	type object Retry
	return json.Unmarshal(raw, (*object)(r))
}

// ModelCalls is x_pawl.model_calls.
type ModelCalls struct {
	// TimeoutSec bounds one attempt, in seconds. nil means 600.
	TimeoutSec *int64 `json:"timeout_sec"`
	Retry      *Retry `json:"retry"`
	// OnUnknown is retry (default), return or escalate.
	OnUnknown string `json:"on_unknown"`
}

// NoProgress is x_pawl.no_progress.
type NoProgress struct {
	// Window is the number of visits with the same end after which the loop is treated as a loop
	// without progress.
	Window int64 `json:"window"`
	// Over lists what is compared between two visits: artifacts, tool_calls. nil means both.
	Over []string `json:"over"`
}

// ToolLimits is x_pawl.tools of one tool.
type ToolLimits struct {
	// TimeoutSec is the timeout of a step, in seconds. nil means 300, or for an agent [machine.DefaultDelegationTimeout].
	TimeoutSec *int64 `json:"timeout_sec"`
	// Attempts bounds the executions of one step. nil means the number in Retry or, without Retry, 1.
	Attempts *int64 `json:"attempts"`
	// Retry configures the attempts and the pauses between them. nil means that there are no pauses.
	Retry *Retry `json:"retry"`
	// MaxCalls bounds the calls of the tool in one run. nil means that there is none.
	MaxCalls *int64 `json:"max_calls"`
	// Cost is the maximum cost of one attempt, in US dollars. For an agent it limits the cost of the run that the
	// call starts.
	Cost *float64 `json:"cost"`
	// OnError is return (default) or escalate.
	OnError string `json:"on_error"`
	// OnUnknown is return (default), retry, escalate or reconcile.
	OnUnknown string `json:"on_unknown"`
	// Dedupe are the payload fields that identify an effect. Calls with the same values have only one
	// effect in all runs together.
	Dedupe []string `json:"dedupe"`
	// Approve is never (default), always, or a condition (CEL). If the condition is true, the call is
	// held until a person has decided about it. Approval contains further settings.
	Approve  string    `json:"approve"`
	Approval *Approval `json:"approval"`
	// Reconcile is the tool that finds out whether a call happened (on_unknown: reconcile). Compensate
	// is the tool that compensates a call.
	Reconcile  string `json:"reconcile"`
	Compensate string `json:"compensate"`
	// MCPDigest is the digest of the tool of an MCP server as the author of the pack has seen it. The
	// sidecar refuses calls while the server offers another tool. "" means that the tool is not pinned.
	MCPDigest string `json:"mcp_digest"`
}

// Approval is x_pawl.tools.NAME.approval.
type Approval struct {
	// TimeoutSec is how long a call waits for a decision, in seconds. nil means one day.
	TimeoutSec *int64 `json:"timeout_sec"`
	// OnTimeout is deny (default) or escalate.
	OnTimeout string `json:"on_timeout"`
	// NotStarter means that the principal that started the run may not decide.
	NotStarter bool `json:"not_starter"`
}

// Composition is a step graph (PromptPack RFC 0010).
type Composition struct {
	Version      int64           `json:"version"`
	Description  string          `json:"description"`
	InputSchema  string          `json:"input_schema"`
	OutputSchema string          `json:"output_schema"`
	Output       string          `json:"output"`
	Steps        []Step          `json:"steps"`
	Engine       json.RawMessage `json:"engine"`
}

// Step is one step of a composition. Kind determines which fields are used.
type Step struct {
	ID           string           `json:"id"`
	Kind         string           `json:"kind"`
	Description  string           `json:"description"`
	DependsOn    []string         `json:"depends_on"`
	Modifiers    StepModifiers    `json:"modifiers"`
	PromptTask   string           `json:"prompt_task"`
	Input        json.RawMessage  `json:"input"`
	OutputSchema string           `json:"output_schema"`
	Tools        []string         `json:"tools"`
	Termination  *StepTermination `json:"termination"`
	Tool         string           `json:"tool"`
	Args         json.RawMessage  `json:"args"`
	Predicate    json.RawMessage  `json:"predicate"`
	Then         string           `json:"then"`
	Else         string           `json:"else"`
	Branches     []Step           `json:"branches"`
	Reduce       *Reducer         `json:"reduce"`
	// Provider is used for prompt steps and agent steps (PromptPack RFC 0017). "" means the provider of
	// the prompt.
	Provider string `json:"provider"`
	// misplaced reports whether the step has a provider although steps of its kind must not have one.
	misplaced bool
}

// StepModifiers annotate a step.
type StepModifiers struct {
	Retry *StepRetry `json:"retry"`
	Eval  []string   `json:"eval"`
}

// StepRetry bounds the executions of a step.
type StepRetry struct {
	MaxAttempts *int64 `json:"max_attempts"`
}

// StepTermination ends the loop of an agent step.
type StepTermination struct {
	MaxSteps   *int64 `json:"max_steps"`
	ToolCalled string `json:"tool_called"`
}

// Reducer merges the outputs of parallel branches.
type Reducer struct {
	// Strategy is append, replace or barrier.
	Strategy string `json:"strategy"`
	Into     string `json:"into"`
}
