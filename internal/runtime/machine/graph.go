package machine

import (
	"time"
)

// Orchestration is the kind of principal that may move a run out of a state (RFC 0005).
type Orchestration uint8

const (
	// Internal: the holder of the open turn. The default.
	Internal Orchestration = iota
	// External: a principal with the scope events:external.
	External
	// Hybrid: either of them.
	Hybrid
)

// Mode is how a write changes an artifact (RFC 0009).
type Mode uint8

const (
	// Replace overwrites the previous value. The default.
	Replace Mode = iota
	// Append adds to it: JSON as elements of one array, text joined by "\n",
	// other media types by concatenation.
	Append
)

// OnFault is the consequence of an exhausted or unknown step for its run.
type OnFault uint8

const (
	// Return gives the error to the turn as the step's answer. The default.
	Return OnFault = iota
	// Retry issues the same step number again with attempt+1 (on_unknown only).
	Retry
	// Escalate ends the run ESCALATED("tool_error:<tool>", for a model call "model_error:<model>").
	Escalate
	// Reconcile asks the tool named by Reconcile whether the call happened (on_unknown only).
	Reconcile
)

// Graph is the compiled control flow of one entry of one pack: everything of the pack that affects what a run
// does. It is immutable and shared by all runs of that pack and entry.
type Graph struct {
	// Digest addresses the pack: "sha256:<64 hex>".
	Digest      string
	PackID      string
	PackVersion string
	// Entry is the state entered at start.
	Entry string
	// Agent is the member key for a run of an agent, else "".
	Agent     string
	States    map[string]*Node
	Prompts   map[string]*Prompt
	Artifacts map[string]Artifact
	Tools     map[string]Tool
	Budget    Budget
	Retry     RetryPolicy
	// ModelCalls is nil if the pack does not define it.
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
	// CompensateOn are the events that undo the run's effects before they are followed.
	CompensateOn map[string]bool `json:",omitempty"`
	// NoProgress is nil if loops may repeat without progress (x_pawl.no_progress).
	NoProgress *NoProgress `json:",omitempty"`
	// Ledger reports whether steps are checked against the budget before they are made, and agents get leases
	// of it. It is set if the pack gives the cost of a tool or sets on_budget.
	Ledger bool `json:",omitempty"`
	// OnBudget is the state that is entered, once, when the budget of tokens or cost does not cover a step
	// (x_pawl.on_budget); "" = the run ends.
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
	// Terminal means `terminal: true`, or no on_event at all. Its OnEvent never fires.
	Terminal bool
	// Outcome is the status of a run that completes in this terminal state: [Failed] if the pack says so
	// (x_pawl.outcome), else unset, which means [Completed].
	Outcome Status
	// MaxVisits is how often the state may be entered; 0 = no bound.
	MaxVisits int
	// OnMaxVisits is the state to enter instead when MaxVisits is used up; "" = none.
	OnMaxVisits   string
	Orchestration Orchestration
	// Persistent keeps the messages of earlier visits for the next one.
	Persistent bool
	// Timeout emits a declared event after a time; nil = never.
	Timeout *Timeout
	// MaxIterations bounds single edges: event -> how often it may be followed (RFC 0003 §5); absent = no
	// bound.
	MaxIterations map[string]int
	// Artifacts are the names that this state declares.
	Artifacts []string
}

// Timeout is x_pawl.timeouts of one state.
type Timeout struct {
	After time.Duration
	Event string
}

// Artifact is a declared name in the artifact namespace of a run.
type Artifact struct {
	// Type is its media type, for example "application/json".
	Type string
	Mode Mode
}

// Prompt is the part of a prompt that the machine needs: the tools that it may call and the models it uses.
type Prompt struct {
	Name string
	// Tools are the names of its tools, member keys included.
	Tools map[string]bool
	// Blocklist takes precedence over Tools.
	Blocklist map[string]bool
	// MaxToolCallsPerTurn is tool_policy.max_tool_calls_per_turn; 0 = no bound.
	MaxToolCallsPerTurn int
	// Model is the model that its turns call (x_pawl.models); "" = the pack does not name one.
	Model string `json:",omitempty"`
	// Models are the models that the prompt is written for (model_overrides), in order. They are set if the
	// prompt names no model and the pack has a cost budget: then they need a price.
	Models []string `json:",omitempty"`
}

// Tool is how one tool's steps are executed (x_pawl.tools).
type Tool struct {
	// Timeout is the step's deadline counted from its request. Default 300 s.
	Timeout time.Duration
	// Attempts bounds the executions of one step. Default 1.
	Attempts int
	// Retry has the pauses between attempts, not their number; nil = no pauses, except those requested with a
	// failure.
	Retry     *RetryPolicy `json:",omitempty"`
	OnError   OnFault
	OnUnknown OnFault
	// MaxCalls bounds its calls in a run; 0 = no bound of its own.
	MaxCalls int `json:",omitempty"`
	// CostMicro is the maximum cost of one attempt, in micro-dollars; for an agent its lease. 0 = not given.
	CostMicro int64 `json:",omitempty"`
	// Agent marks a member key: its steps are delegations.
	Agent bool
	// TurnTokens is the maximum consumption of one turn of the agent, according to its pack. The agent's
	// lease has at least that many tokens while the budget has them. 0 = [DefaultTurnTokens].
	TurnTokens int64 `json:",omitempty"`
	// ResultArtifact is the artifact that receives an accepted answer in the same commit; "" = none.
	ResultArtifact string
	// Dedupe are the payload fields that make its business key, as JSON pointers: one effect per key over all
	// runs of a namespace. Empty = none.
	Dedupe []string `json:",omitempty"`
	// Approval is nil if calls are made without approval.
	Approval *Approval `json:",omitempty"`
	// Reconcile is the tool that can find out whether a call of this one happened, Compensate the one that
	// undoes it; "" = none.
	Reconcile  string `json:",omitempty"`
	Compensate string `json:",omitempty"`
}

// Budget is engine.budget and the budgets of engine.x_pawl. Zero = no limit.
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
	// MaxAttempts counts executions, the first included. Default 3.
	MaxAttempts int
	// Initial is the pause before attempt 2. Default 1 s; doubled per attempt.
	Initial time.Duration
	// Max caps the pause. Default 60 s.
	Max time.Duration
	// Multiplier makes each pause from the one before, in thousandths. 0 = 2000. It and the fields after it
	// are options that the pack may set; their zero values are the defaults.
	Multiplier int64 `json:",omitempty"`
	// Jitter changes a pause by up to this many millionths in either direction. nil = 200 000.
	Jitter *int64 `json:",omitempty"`
	// NonRetryable are the codes of errors after which no attempt follows, in order.
	NonRetryable []string `json:",omitempty"`
}

// Calls is how model calls are made (x_pawl.model_calls).
type Calls struct {
	// Timeout is that of one attempt; 0 = the machine's default.
	Timeout time.Duration
	// Retry bounds the attempts of one execution.
	Retry RetryPolicy
	// OnUnknown is the consequence of a model call with an unknown outcome; nil = [Retry].
	OnUnknown *OnFault `json:",omitempty"`
}

// Unknown returns OnUnknown or its default.
func (c *Calls) Unknown() OnFault {
	if c == nil || c.OnUnknown == nil {
		return Retry
	}
	return *c.OnUnknown
}
