package machine

import (
	"time"
)

// Orchestration is the kind of principal that may move a run out of a state (RFC 0005).
type Orchestration uint8

const (
	// Internal means the holder of the open turn. This is the default.
	Internal Orchestration = iota
	// External means a principal with the scope events:external.
	External
	// Hybrid means the holder of the open turn or a principal with the scope events:external.
	Hybrid
)

// Mode is how a write changes an artifact (RFC 0009).
type Mode uint8

const (
	// Replace overwrites the previous value. The default.
	Replace Mode = iota
	// Append adds the new value to the previous one: JSON values become elements of one array, texts are joined by "\n", and other media
	// types are concatenated.
	Append
)

// OnFault is what happens to the run when a step has failed finally or has an unknown outcome.
type OnFault uint8

const (
	// Return makes the error the answer of the step, which the turn receives. This is the default.
	Return OnFault = iota
	// Retry starts the same step again with the next attempt number (only for on_unknown).
	Retry
	// Escalate ends the run as ESCALATED with the reason "tool_error:<tool>", or "model_error:<model>" for a model call.
	Escalate
	// Reconcile calls the tool that the pack names to find out whether the call happened (only for on_unknown).
	Reconcile
)

// Graph is the compiled control flow of one entry of one pack: everything of the pack that affects what a run
// does. It is immutable and shared by all runs of that pack and entry.
type Graph struct {
	// Digest is the digest of the pack: "sha256:<64 hex>".
	Digest      string
	PackID      string
	PackVersion string
	// Entry is the state entered at start.
	Entry string
	// Agent is the member key if the run is the run of an agent, else "".
	Agent     string
	States    map[string]*Node
	Prompts   map[string]*Prompt
	Artifacts map[string]Artifact
	Tools     map[string]Tool
	Budget    Budget
	Retry     RetryPolicy
	// ModelCalls configures the calls of models. It is nil if the pack does not configure them.
	ModelCalls *Calls `json:",omitempty"`
	// Lease is how long a worker holds a turn without a heartbeat; 0 = the operator's setting.
	Lease time.Duration
	// MaxPendingSteps bounds the open steps of a run (x_pawl.max_pending_steps).
	MaxPendingSteps int
	// MaxArtifactBytes bounds one written value (x_pawl.max_artifact_bytes); 0 = only the operator's limit
	// applies.
	MaxArtifactBytes int64
	// MaxRunArtifactBytes bounds all artifacts of a run together (x_pawl.max_run_artifact_bytes); 0 = only
	// the operator's limit applies.
	MaxRunArtifactBytes int64 `json:",omitempty"`
	// WallExcludesWaiting stops the wall clock while the run is WAITING.
	WallExcludesWaiting bool
	// Erasable reports whether the values of the run can be erased (x_pawl.erasable).
	Erasable bool `json:",omitempty"`
	// CompensateOn are the events before which the effects of the run are undone.
	CompensateOn map[string]bool `json:",omitempty"`
	// NoProgress detects loops without progress (x_pawl.no_progress). It is nil if loops may repeat without progress.
	NoProgress *NoProgress `json:",omitempty"`
	// Ledger reports whether the budget is checked before each step, and whether agents get leases of the budget. It is set if the pack
	// gives the cost of a tool or sets on_budget.
	Ledger bool `json:",omitempty"`
	// OnBudget is the state that the run enters, once, when the budget of tokens or cost does not cover a step (x_pawl.on_budget); "" = the
	// run ends instead.
	OnBudget string `json:",omitempty"`
	// Prices are the pack's prices of models (x_pawl.prices); they take precedence over the operator's.
	Prices map[string]Price `json:",omitempty"`
}

// NoProgress defines when a loop makes no progress: when a visit ends for the Window-th time in the same way,
// with no other activity in between. Two visits end in the same way if they left the same state by the same
// event, with equal artifacts of the run (Artifacts), after the same tool calls (ToolCalls).
type NoProgress struct {
	Window               int
	Artifacts, ToolCalls bool
}

// Node is one workflow state (RFC 0005, RFC 0009).
type Node struct {
	Name   string
	Prompt string
	// OnEvent maps a declared event to its target state.
	OnEvent map[string]string
	// Terminal reports whether the state has `terminal: true` or no on_event. A run cannot leave such a state.
	Terminal bool
	// Outcome is the status of a run that completes in this terminal state: [Failed] if the pack says so
	// (x_pawl.outcome), else unset, which means [Completed].
	Outcome Status
	// MaxVisits bounds how often the state may be entered; 0 = no bound.
	MaxVisits int
	// OnMaxVisits is the state that the run enters instead after MaxVisits entries; "" = none.
	OnMaxVisits   string
	Orchestration Orchestration
	// Persistent keeps the messages of earlier visits for the next one.
	Persistent bool
	// Timeout emits a declared event after a time; nil = no timeout.
	Timeout *Timeout
	// MaxIterations bounds how often single edges may be followed, by event (RFC 0003 §5). An event that is missing has no bound.
	MaxIterations map[string]int
	// Artifacts are the names that this state declares.
	Artifacts []string
}

// Timeout is the timeout of one state (x_pawl.timeouts).
type Timeout struct {
	After time.Duration
	Event string
}

// Artifact is a declared name in the artifact namespace of a run.
type Artifact struct {
	// Type is the media type of the artifact, for example "application/json".
	Type string
	Mode Mode
}

// Prompt is the part of a prompt that the machine needs: the tools that it may call and the models it uses.
type Prompt struct {
	Name string
	// Tools are the names of the tools of the prompt, including member keys.
	Tools map[string]bool
	// Blocklist are names that the prompt must not call, even if they are in Tools.
	Blocklist map[string]bool
	// MaxToolCallsPerTurn is tool_policy.max_tool_calls_per_turn; 0 = no bound.
	MaxToolCallsPerTurn int
	// Model is the model that turns of the prompt call (x_pawl.models); "" = the pack does not name one.
	Model string `json:",omitempty"`
	// Models are the models for which the prompt is written (model_overrides), in order. They are set if the prompt names no model and the
	// pack has a cost budget, because then these models need a price.
	Models []string `json:",omitempty"`
}

// Tool configures how the steps of one tool are executed (x_pawl.tools).
type Tool struct {
	// Timeout is the time from the request of a step to its deadline. Default 300 s.
	Timeout time.Duration
	// Attempts bounds the executions of one step. Default 1.
	Attempts int
	// Retry configures the pauses between attempts, not the number of attempts. If it is nil, there are no pauses, except those that a
	// failure requests.
	Retry     *RetryPolicy `json:",omitempty"`
	OnError   OnFault
	OnUnknown OnFault
	// MaxCalls bounds the calls of the tool in one run; 0 = no such bound.
	MaxCalls int `json:",omitempty"`
	// CostMicro is the maximum cost of one attempt, in micro-dollars. For an agent it is the cost in its lease. 0 = the pack gives no cost.
	CostMicro int64 `json:",omitempty"`
	// Agent reports whether the tool is a member key. Its steps are delegations.
	Agent bool
	// TurnTokens is the maximum consumption of one turn of the agent, according to its pack. If the budget has enough tokens left, the
	// agent's lease has at least that many. 0 = [DefaultTurnTokens].
	TurnTokens int64 `json:",omitempty"`
	// ResultArtifact is the artifact into which an accepted answer is written in the same commit; "" = none.
	ResultArtifact string
	// Dedupe are the payload fields that form the business key, as JSON pointers. All runs of a namespace together have one effect for each
	// key. Empty = the tool has no business key.
	Dedupe []string `json:",omitempty"`
	// Approval is nil if calls are made without approval.
	Approval *Approval `json:",omitempty"`
	// Reconcile is the tool that finds out whether a call of this tool happened. Compensate is the tool that
	// compensates a call of this tool. "" = none.
	Reconcile  string `json:",omitempty"`
	Compensate string `json:",omitempty"`
}

// Budget contains engine.budget and the budgets of engine.x_pawl. Zero fields mean no limit.
type Budget struct {
	MaxTotalVisits int
	MaxToolCalls   int
	MaxWallTime    time.Duration
	MaxSteps       int
	MaxReframes    int
	MaxTokens      int64
	// MaxCostMicroUSD is max_cost_usd in millionths of a dollar.
	MaxCostMicroUSD int64
}

// RetryPolicy bounds the attempts of a turn, of a step or of a model call.
type RetryPolicy struct {
	// MaxAttempts bounds the executions, including the first one. Default 3.
	MaxAttempts int
	// Initial is the pause before the second attempt. It is doubled for each further attempt. Default 1 s.
	Initial time.Duration
	// Max bounds each pause. Default 60 s.
	Max time.Duration
	// Multiplier is the factor between a pause and the next one, in thousandths. 0 = 2000. Multiplier and the fields after it are optional
	// settings of the pack; their zero values are the defaults.
	Multiplier int64 `json:",omitempty"`
	// Jitter changes a pause by up to this many millionths in either direction. nil = 200 000.
	Jitter *int64 `json:",omitempty"`
	// NonRetryable are the error codes after which no further attempt is made, in order.
	NonRetryable []string `json:",omitempty"`
}

// Calls configures how models are called (x_pawl.model_calls).
type Calls struct {
	// Timeout bounds one attempt; 0 = the default of the machine.
	Timeout time.Duration
	// Retry bounds the attempts of one model call.
	Retry RetryPolicy
	// OnUnknown is what happens after a model call with an unknown outcome; nil = [Retry].
	OnUnknown *OnFault `json:",omitempty"`
}

// Unknown returns OnUnknown, or its default if it is nil.
func (c *Calls) Unknown() OnFault {
	if c == nil || c.OnUnknown == nil {
		return Retry
	}
	return *c.OnUnknown
}
