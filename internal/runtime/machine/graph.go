package machine

import (
	"time"
)

// Orchestration selects which principals may move a run out of a state (RFC 0005).
type Orchestration uint8

const (
	// Internal means that the holder of the open turn moves the run. This is the default.
	Internal Orchestration = iota
	// External means a principal with the scope events:external.
	External
	// Hybrid means that the holder of the open turn, or a principal with the scope events:external,
	// moves the run.
	Hybrid
)

// Mode is how a write changes an artifact (RFC 0009).
type Mode uint8

const (
	// Replace overwrites the previous value. The default.
	Replace Mode = iota
	// Append adds the new value to the previous value. JSON values become elements of one array, texts
	// are joined by "\n", and values of other media types are concatenated.
	Append
)

// OnFault selects what happens to the run when a step has finally failed or has an unknown outcome.
type OnFault uint8

const (
	// Return makes the error the answer of the step. The turn receives this answer. This is the
	// default.
	Return OnFault = iota
	// Retry starts the same step again with the next attempt number. It is allowed only for on_unknown.
	Retry
	// Escalate ends the run as ESCALATED. The reason is "tool_error:<tool>" or, for a model call,
	// "model_error:<model>".
	Escalate
	// Reconcile calls the tool that the pack names, in order to find out whether the call happened. It
	// is allowed only for on_unknown.
	Reconcile
)

// Graph is the compiled control flow for one entry of a pack. It contains everything of the pack that
// affects what a run does. It is immutable, and all runs of that pack and entry share it.
type Graph struct {
	// Digest is the digest of the pack, in the form "sha256:<64 hex digits>".
	Digest      string
	PackID      string
	PackVersion string
	// Entry is the state entered at start.
	Entry string
	// Agent is the member key of the agent if an agent executes the run. Otherwise it is "".
	Agent     string
	States    map[string]*Node
	Prompts   map[string]*Prompt
	Artifacts map[string]Artifact
	Tools     map[string]Tool
	Budget    Budget
	Retry     RetryPolicy
	// ModelCalls configures the calls of models. It is nil if the pack does not configure them.
	ModelCalls *Calls `json:",omitempty"`
	// Lease is how long a worker holds a turn without a heartbeat. 0 means that the operator's setting
	// applies.
	Lease time.Duration
	// MaxPendingSteps bounds the open steps of a run (x_pawl.max_pending_steps).
	MaxPendingSteps int
	// MaxArtifactBytes bounds one written value (x_pawl.max_artifact_bytes). 0 means that only the
	// operator's limit applies.
	MaxArtifactBytes int64
	// MaxRunArtifactBytes bounds the sum of all artifacts of a run (x_pawl.max_run_artifact_bytes). 0
	// means that only the operator's limit applies.
	MaxRunArtifactBytes int64 `json:",omitempty"`
	// WallExcludesWaiting stops the wall clock of the run while the run is WAITING.
	WallExcludesWaiting bool
	// Erasable reports whether the values of the run can be erased (x_pawl.erasable).
	Erasable bool `json:",omitempty"`
	// CompensateOn contains the events that trigger compensation: the effects of the run are undone
	// before such an event is followed.
	CompensateOn map[string]bool `json:",omitempty"`
	// NoProgress detects loops without progress (x_pawl.no_progress). If it is nil, loops may repeat
	// without progress.
	NoProgress *NoProgress `json:",omitempty"`
	// Ledger reports whether the budget is checked before each step, and whether agents get leases of
	// the budget. It is true if the pack declares the cost of a tool or sets on_budget.
	Ledger bool `json:",omitempty"`
	// OnBudget is the state that the run enters, at most once, when the budget of tokens or cost does
	// not cover a step (x_pawl.on_budget). If it is "", the run ends instead.
	OnBudget string `json:",omitempty"`
	// Prices are the pack's prices of models (x_pawl.prices); they take precedence over the operator's.
	Prices map[string]Price `json:",omitempty"`
}

// NoProgress defines when a loop makes no progress. This is the case when a visit is the Window-th
// visit that ends in the same way, without other activity between these visits. Two visits end in the
// same way if they leave the same state by the same event, with equal artifacts of the run (Artifacts),
// and after the same tool calls (ToolCalls).
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
	// Outcome is the status of a run that completes in this terminal state. It is [Failed] if the pack
	// declares this (x_pawl.outcome). Otherwise it is unset, which means [Completed].
	Outcome Status
	// MaxVisits bounds how often the state may be entered. 0 means that there is no bound.
	MaxVisits int
	// OnMaxVisits is the state that the run enters instead of this state after MaxVisits entries. It is
	// "" if there is none.
	OnMaxVisits   string
	Orchestration Orchestration
	// Persistent keeps the messages of earlier visits for the next visit.
	Persistent bool
	// Timeout emits a declared event after a given time in the state. It is nil if there is no timeout.
	Timeout *Timeout
	// MaxIterations bounds, for each event, how often the edge of the event may be followed (RFC 0003
	// §5). If an event is missing, its edge has no bound.
	MaxIterations map[string]int
	// Artifacts are the names that this state declares.
	Artifacts []string
}

// Timeout is the timeout of one state (x_pawl.timeouts).
type Timeout struct {
	After time.Duration
	Event string
}

// Artifact is a name that the pack declares for an artifact of a run.
type Artifact struct {
	// Type is the media type of the artifact, for example "application/json".
	Type string
	Mode Mode
}

// Prompt is the part of a prompt that the machine needs: the tools that the prompt may call and the
// models that it uses.
type Prompt struct {
	Name string
	// Tools are the names of the tools that the prompt may call, including member keys of agents.
	Tools map[string]bool
	// Blocklist are names that the prompt must not call, even if they are in Tools.
	Blocklist map[string]bool
	// MaxToolCallsPerTurn is tool_policy.max_tool_calls_per_turn; 0 = no bound.
	MaxToolCallsPerTurn int
	// Model is the model that turns of the prompt call (x_pawl.models). It is "" if the pack does not
	// name a model.
	Model string `json:",omitempty"`
	// Models are the models for which the prompt is written (model_overrides), in order. They are set
	// only if the prompt names no model and the pack has a cost budget, because in this case each of
	// these models needs a price.
	Models []string `json:",omitempty"`
}

// Tool configures how the steps of one tool are executed (x_pawl.tools).
type Tool struct {
	// Timeout is the time from the request of a step to its deadline. Default 300 s.
	Timeout time.Duration
	// Attempts bounds the executions of one step. Default 1.
	Attempts int
	// Retry configures the pauses between attempts, but not the number of attempts. If it is nil, there
	// are no pauses except those that a failure requests.
	Retry     *RetryPolicy `json:",omitempty"`
	OnError   OnFault
	OnUnknown OnFault
	// MaxCalls bounds the calls of the tool in one run. 0 means that there is no such bound.
	MaxCalls int `json:",omitempty"`
	// CostMicro is the maximum cost of one attempt, in micro-dollars. For an agent it is the cost limit
	// in the agent's lease. 0 means that the pack declares no cost.
	CostMicro int64 `json:",omitempty"`
	// Agent reports whether the tool is an agent, named by its member key. The steps of such a tool are
	// delegations.
	Agent bool
	// TurnTokens is the maximum number of tokens that one turn of the agent consumes, according to the
	// agent's pack. If the budget has at least this many tokens left, the agent's lease has at least
	// this many. 0 means [DefaultTurnTokens].
	TurnTokens int64 `json:",omitempty"`
	// ResultArtifact is the artifact into which an accepted answer is written in the same commit. It is
	// "" if there is none.
	ResultArtifact string
	// Dedupe are the payload fields that form the business key, as JSON pointers. Calls with the same
	// key have only one effect in all runs of a namespace together. If Dedupe is empty, the tool has no
	// business key.
	Dedupe []string `json:",omitempty"`
	// Approval is nil if calls are made without approval.
	Approval *Approval `json:",omitempty"`
	// Reconcile is the tool that finds out whether a call of this tool happened. Compensate is the tool
	// that compensates a call of this tool. Each is "" if there is none.
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
	// Multiplier is the factor between a pause and the next pause, in thousandths. 0 means 2000.
	// Multiplier and the fields after it are optional settings of the pack. Their zero values mean the
	// defaults.
	Multiplier int64 `json:",omitempty"`
	// Jitter changes a pause by up to this many millionths in either direction. nil means 200 000.
	Jitter *int64 `json:",omitempty"`
	// NonRetryable are the error codes after which no further attempt is made, in order.
	NonRetryable []string `json:",omitempty"`
}

// Calls configures how models are called (x_pawl.model_calls).
type Calls struct {
	// Timeout bounds one attempt. 0 means the default of the machine.
	Timeout time.Duration
	// Retry bounds the attempts of one model call.
	Retry RetryPolicy
	// OnUnknown selects what happens after a model call with an unknown outcome. nil means [Retry].
	OnUnknown *OnFault `json:",omitempty"`
}

// Unknown returns OnUnknown, or its default if it is nil.
func (c *Calls) Unknown() OnFault {
	if c == nil || c.OnUnknown == nil {
		return Retry
	}
	return *c.OnUnknown
}
