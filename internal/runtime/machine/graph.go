package machine

import (
	"time"
)

// Orchestration says who may move a run out of a state (RFC 0005).
type Orchestration uint8

const (
	// Internal: the holder of the current turn. The default.
	Internal Orchestration = iota
	// External: a principal with the scope events:external.
	External
	// Hybrid: either of them.
	Hybrid
)

// Mode says how a write changes an artifact (RFC 0009).
type Mode uint8

const (
	// Replace overwrites the previous value. The default.
	Replace Mode = iota
	// Append adds to it: JSON as elements of one array, text joined by "\n",
	// other media types by concatenation.
	Append
)

// OnFault is what an exhausted or unknown step does to its run.
type OnFault uint8

const (
	// Return hands the error to the turn as the step's answer. The default.
	Return OnFault = iota
	// Retry issues the same step number again with attempt+1 (on_unknown only).
	Retry
	// Escalate ends the run ESCALATED("tool_error:<tool>", of a call of a model
	// "model_error:<model>").
	Escalate
	// Reconcile asks the tool's Reconcile whether it happened (on_unknown only).
	Reconcile
)

// Graph is the compiled control flow of one entry of one pack: everything of
// the pack that changes what a run does. Immutable once compiled and shared by
// all runs of that pack and entry.
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
	// ModelCalls is nil where the pack says nothing of them.
	ModelCalls *Calls `json:",omitempty"`
	// Lease is how long a worker holds a turn without a heartbeat; 0 = the operator says.
	Lease time.Duration
	// MaxPendingSteps bounds the open steps of a run (x_pawl.max_pending_steps).
	MaxPendingSteps int
	// MaxArtifactBytes is x_pawl.max_artifact_bytes: one written value; 0 = the
	// operator's limit alone.
	MaxArtifactBytes int64
	// MaxRunArtifactBytes is x_pawl.max_run_artifact_bytes: what the run's artifacts hold
	// together; 0 = the operator's limit alone.
	MaxRunArtifactBytes int64 `json:",omitempty"`
	// WallExcludesWaiting stops the wall clock while the run is WAITING.
	WallExcludesWaiting bool
	// Erasable: what the run's rows hold can be erased (x_pawl.erasable).
	Erasable bool `json:",omitempty"`
	// CompensateOn are the events that undo the run's effects before they are followed.
	CompensateOn map[string]bool `json:",omitempty"`
	// NoProgress is nil where loops may repeat themselves (x_pawl.no_progress).
	NoProgress *NoProgress `json:",omitempty"`
	// Ledger: the pack says what a tool costs, or what follows where the budget does not hold a
	// step; so steps are held to the budget before they are made, and agents have leases.
	Ledger bool `json:",omitempty"`
	// OnBudget is the state that is entered, once, where the budget of tokens or cost does not
	// hold a step (x_pawl.on_budget); "" = the run ends.
	OnBudget string `json:",omitempty"`
	// Prices are those of models that the pack has (x_pawl.prices); they go before the
	// operator's.
	Prices map[string]Price `json:",omitempty"`
}

// NoProgress says when a loop stands still: when a visit ends for the Window-th time as
// it ended before, and nothing else happened in between. Two visits are equal that left
// the same state by the same event, with equal artifacts of the run (Artifacts), after the
// same calls of tools (ToolCalls).
type NoProgress struct {
	Window               int
	Artifacts, ToolCalls bool
}

// Node is one workflow state (RFC 0005, RFC 0009).
type Node struct {
	Name   string
	Prompt string
	// OnEvent maps a declared event to the state that it leads to.
	OnEvent map[string]string
	// Terminal: `terminal: true`, or no on_event at all. Its OnEvent never fires.
	Terminal bool
	// Outcome is how a run ends that completes this terminal state: [Failed] where the
	// pack says so (x_pawl.outcome), else unset, which is [Completed].
	Outcome Status
	// MaxVisits is how often the state may be entered; 0 = no guard.
	MaxVisits int
	// OnMaxVisits is the forced exit of a used-up guard; "" = none.
	OnMaxVisits   string
	Orchestration Orchestration
	// Persistent hands the messages of earlier visits to the next one.
	Persistent bool
	// Timeout emits a declared event by itself; nil = never.
	Timeout *Timeout
	// MaxIterations bounds single edges: event -> how often it may be followed
	// (RFC 0003 §5); absent = no bound.
	MaxIterations map[string]int
	// Artifacts are the names that this state declares.
	Artifacts []string
}

// Timeout is x_pawl.timeouts of one state.
type Timeout struct {
	After time.Duration
	Event string
}

// Artifact is a declared slot of the run-wide artifact namespace.
type Artifact struct {
	// Type is its media type, for example "application/json".
	Type string
	Mode Mode
}

// Prompt is what the machine needs of a prompt: which tools it may call.
type Prompt struct {
	Name string
	// Tools are the tool names that it lists, member keys included.
	Tools map[string]bool
	// Blocklist overrides Tools.
	Blocklist map[string]bool
	// MaxToolCallsPerTurn is tool_policy.max_tool_calls_per_turn; 0 = no bound.
	MaxToolCallsPerTurn int
	// Model is the one that its turns ask (x_pawl.models); "" = the pack does not say.
	Model string `json:",omitempty"`
	// Models are those that it is written for (model_overrides), in order, where it names
	// none and there is a budget of cost: they need a price.
	Models []string `json:",omitempty"`
}

// Tool is how one tool's steps are run (x_pawl.tools).
type Tool struct {
	// Timeout is the step's deadline counted from its request. Default 300 s.
	Timeout time.Duration
	// Attempts bounds executions of one step. Default 1.
	Attempts int
	// Retry has the pauses between them, and no bound; nil = none, but for those that
	// whoever fails asks for.
	Retry     *RetryPolicy `json:",omitempty"`
	OnError   OnFault
	OnUnknown OnFault
	// MaxCalls bounds its calls in a run; 0 = no bound of its own.
	MaxCalls int `json:",omitempty"`
	// CostMicro is what one attempt may cost at most, in micro-dollars; of an agent its lease.
	// 0 = not said.
	CostMicro int64 `json:",omitempty"`
	// Agent marks a member key: its steps are delegations.
	Agent bool
	// TurnTokens is what one turn of the agent takes at most, by its pack: the least that it
	// is leased while there is so much. 0 = [DefaultTurnTokens].
	TurnTokens int64 `json:",omitempty"`
	// ResultArtifact receives an accepted answer in the same commit; "" = none.
	ResultArtifact string
	// Dedupe names the fields of the payload that make its business key, as JSON pointers:
	// one effect per key over all runs of a namespace. Empty = none.
	Dedupe []string `json:",omitempty"`
	// Approval is nil where calls go out as they are asked for.
	Approval *Approval `json:",omitempty"`
	// Reconcile is the tool that knows whether a call of this one happened, Compensate the
	// one that undoes it; "" = none.
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

// RetryPolicy bounds the attempts of a turn, of a step or of a call of a model.
type RetryPolicy struct {
	// MaxAttempts counts executions, the first included. Default 3.
	MaxAttempts int
	// Initial is the pause before attempt 2. Default 1 s; doubled per attempt.
	Initial time.Duration
	// Max caps the pause. Default 60 s.
	Max time.Duration
	// Words are what the pack says besides of the pauses; the zero value is the default.
	// Multiplier makes each pause of the one before, in thousandths. 0 = 2000.
	Multiplier int64 `json:",omitempty"`
	// Jitter moves a pause by up to so many millionths of it either way. nil = 200 000.
	Jitter *int64 `json:",omitempty"`
	// NonRetryable are the codes of errors after which no attempt follows, in order.
	NonRetryable []string `json:",omitempty"`
}

// Calls are how calls of models are made (x_pawl.model_calls).
type Calls struct {
	// Timeout of one attempt; 0 = the machine's default.
	Timeout time.Duration
	// Retry bounds the attempts of one execution.
	Retry RetryPolicy
	// OnUnknown is what follows where nobody knows what came of a call; nil = [Retry].
	OnUnknown *OnFault `json:",omitempty"`
}

// Unknown is the word of OnUnknown.
func (c *Calls) Unknown() OnFault {
	if c == nil || c.OnUnknown == nil {
		return Retry
	}
	return *c.OnUnknown
}
