package machine

import (
	"errors"
	"fmt"
	"time"
)

// Orchestration selects which principals may emit the events that move a run out of a state (RFC 0005).
type Orchestration uint8

const (
	// Internal means that the executor of the open turn moves the run. This is the default.
	Internal Orchestration = iota
	// External means a principal with the scope events:external.
	External
	// Hybrid means that the executor of the open turn, or a principal with the scope events:external,
	// moves the run.
	Hybrid
)

// Control selects whether the user or the agent acts after the executor of a turn has moved the run into a state (RFC
// 0014).
type Control uint8

const (
	// ControlUndeclared means that the state declares no control. In a conversation the run then waits for an input.
	// Any other run opens the state's first turn.
	ControlUndeclared Control = iota
	// ControlUser means that the run waits for an input of the user after it has entered the state.
	ControlUser
	// ControlAgent means that the state's first turn is opened as soon as the run has entered the
	// state.
	ControlAgent
)

// Mode is how a write changes an artifact (RFC 0009).
type Mode uint8

const (
	// Replace overwrites the previous value. The default.
	Replace Mode = iota
	// Append adds the new value to the previous value. JSON values become elements of one array (an array adds its elements), texts are
	// joined by "\n", and values of other media types are concatenated.
	Append
)

// OnFault selects what happens to the run when a step has finally failed or when its outcome is unknown.
type OnFault uint8

const (
	// Return makes the error the answer of the step, so that the turn receives the error. This is the default.
	Return OnFault = iota
	// Retry executes the same step again as its next attempt. It is allowed only for on_unknown, the rule for unknown
	// outcomes.
	Retry
	// Escalate ends the run as ESCALATED. The reason is "tool_error:<tool>" or, for a model call,
	// "model_error:<model>".
	Escalate
	// Reconcile calls the reconcile tool that the pack names, in order to find out whether the call happened. It is
	// allowed only for on_unknown, the rule for unknown outcomes.
	Reconcile
)

// Graph is the compiled control flow of a pack for one entry. It contains everything of the pack that affects what a
// run does. It is immutable, and all runs of that pack and entry share it.
type Graph struct {
	// Digest is the digest of the pack, in the form "sha256:<64 hex digits>".
	Digest      string
	PackID      string
	PackVersion string
	// Entry is the name of the state that a run enters at its start.
	Entry string
	// Agent is the member key of the agent if an agent executes the run. Otherwise it is "".
	Agent     string
	States    map[string]*Node
	Prompts   map[string]*Prompt
	Artifacts map[string]Artifact
	Tools     map[string]Tool
	Budget    Budget
	Retry     RetryPolicy
	// ModelCalls configures the model calls. It is nil if the pack does not configure them.
	ModelCalls *Calls `json:",omitempty"`
	// Lease is how long a worker holds a turn without a heartbeat. 0 means that the operator's setting
	// applies.
	Lease time.Duration
	// MaxPendingSteps bounds the steps of a run that wait for an answer (x_pawl.max_pending_steps). 0 means
	// [DefaultMaxPendingSteps].
	MaxPendingSteps int
	// MaxArtifactBytes bounds one written value (x_pawl.max_artifact_bytes). 0 means that only the
	// operator's limit applies.
	MaxArtifactBytes int64
	// MaxRunArtifactBytes bounds the sum of all artifacts of a run (x_pawl.max_run_artifact_bytes). 0
	// means that only the operator's limit applies.
	MaxRunArtifactBytes int64 `json:",omitempty"`
	// WallExcludesWaiting means that the wall-time clock of the run is stopped while the run is WAITING.
	WallExcludesWaiting bool
	// Erasable reports whether the values of the run can be erased (x_pawl.erasable).
	Erasable bool `json:",omitempty"`
	// CompensateOn contains the events that trigger compensation: before the run follows one of these events, the effects
	// of its tool calls are undone.
	CompensateOn map[string]bool `json:",omitempty"`
	// NoProgress detects loops without progress (x_pawl.no_progress). If it is nil, these loops are not detected.
	NoProgress *NoProgress `json:",omitempty"`
	// Ledger reports whether the budget is checked before each step, and whether agents get leases of the budget. It is
	// true if the pack declares the cost of a tool or sets x_pawl.on_budget.
	Ledger bool `json:",omitempty"`
	// OnBudget is the state that the run enters, at most once, when the budget of tokens or cost does
	// not cover a step (x_pawl.on_budget). If it is "", the run ends instead.
	OnBudget string `json:",omitempty"`
	// Prices are the pack's prices of models (x_pawl.prices). They take precedence over the operator's prices.
	Prices map[string]Price `json:",omitempty"`
}

// NoProgress defines when a loop makes no progress: when Window visits have ended in the same way, without other
// activity between them. Two visits end in the same way if they leave the same state by the same event. With Artifacts
// they must also leave equal artifacts, and with ToolCalls they must have made the same tool calls.
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
	// Terminal reports whether a run cannot leave the state. It is true if the pack sets `terminal: true` or declares
	// no event in on_event.
	Terminal bool
	// Outcome is the status of a run that completes in this terminal state. It is [Failed] if the pack declares that
	// (x_pawl.outcome). Otherwise it is unset, which means [Completed].
	Outcome Status
	// MaxVisits bounds how often the state may be entered. 0 means that there is no bound.
	MaxVisits int
	// OnMaxVisits is the state that the run enters instead of this state if this state was already entered MaxVisits
	// times. It is "" if there is none.
	OnMaxVisits   string
	Orchestration Orchestration
	Control       Control `json:",omitempty"`
	// Persistent means that a new visit of the state sees the messages of earlier visits.
	Persistent bool
	// Timeout emits an event after a given time in the state. It is nil if the state has no timeout.
	Timeout *Timeout
	// MaxIterations bounds, for each event of the state, how often a run may follow it to its target (RFC 0003 §5). An
	// event that is missing has no bound.
	MaxIterations map[string]int
	// Artifacts are the names of the artifacts that the state declares.
	Artifacts []string
}

// Timeout is the timeout of one state (x_pawl.timeouts).
type Timeout struct {
	After time.Duration
	Event string
}

// Artifact is the pack's declaration of one artifact: its type and how writes change it.
type Artifact struct {
	// Type is the media type of the artifact, for example "application/json".
	Type string
	Mode Mode
}

// Prompt is the part of a pack's prompt that the machine needs: the tools that the prompt may call and the models that
// it uses.
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
	// Models are the models for which the prompt is written (model_overrides), in order. They are set only if the
	// prompt names no model and the pack has a cost budget. Each of these models then needs a price.
	Models []string `json:",omitempty"`
	// Provider is the key of the provider requirement that the prompt names (RFC 0017). It is "" if the
	// prompt names none, which means the key "default". ProviderRole is the role of the requirement. It is
	// "" if the pack does not declare the requirement.
	Provider, ProviderRole string `json:",omitempty"`
}

// Tool configures how the steps of one tool are executed (x_pawl.tools).
type Tool struct {
	// Timeout is the time from the issue of an attempt to its deadline. 0 means 300 s, and for an agent [DefaultDelegationTimeout].
	Timeout time.Duration
	// Attempts bounds the executions of one step. Default 1.
	Attempts int
	// Retry configures the pauses between attempts, but not the number of attempts. If it is nil, there is no pause,
	// except if a failure report requests one.
	Retry     *RetryPolicy `json:",omitempty"`
	OnError   OnFault
	OnUnknown OnFault
	// OnUnknownSet reports whether the pack sets OnUnknown. The engine uses it: see StepRequest.Repeatable.
	OnUnknownSet bool `json:",omitempty"`
	// MaxCalls bounds the calls of the tool in one run. 0 means that there is none.
	MaxCalls int `json:",omitempty"`
	// CostMicro is the maximum cost of one attempt, in micro-dollars. For an agent it is the cost limit
	// in the agent's lease. 0 means that the pack declares no cost.
	CostMicro int64 `json:",omitempty"`
	// Agent reports whether the tool is an agent, named by its member key. The steps of such a tool are
	// delegations.
	Agent bool
	// TurnTokens is the maximum number of tokens that one turn of the agent consumes, according to the agent's pack.
	// The agent's lease has at least this many tokens if the budget has them. 0 means [DefaultTurnTokens].
	TurnTokens int64 `json:",omitempty"`
	// ResultArtifact is the artifact to which a successful answer of the tool is written, in the same commit. It is ""
	// if there is none.
	ResultArtifact string
	// Dedupe are the payload fields that form the business key, as JSON pointers. Calls with the same business key have
	// only one effect in all runs of a namespace together. If Dedupe is empty, the tool has no business key.
	Dedupe []string `json:",omitempty"`
	// Approval configures how calls of the tool are approved. It is nil if they are made without approval.
	Approval *Approval `json:",omitempty"`
	// Reconcile is the tool that finds out whether a call of this tool happened. Compensate is the tool that compensates the
	// effect of a call of this tool. Each is "" if there is none.
	Reconcile  string `json:",omitempty"`
	Compensate string `json:",omitempty"`
}

// Budget contains the budgets that the pack sets in engine.budget and in engine.x_pawl. A field that is 0 means that
// there is no limit.
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
	// Initial is the pause before the second attempt. Each further pause is longer by the factor Multiplier. Default 1 s.
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
	// Timeout bounds one attempt of a model call. 0 means [DefaultModelTimeout].
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

// CheckGraph returns all faults that make a graph unusable for rules.Step: names that refer to nothing, and negative
// bounds. The code that compiles or loads a Graph calls it once.
func CheckGraph(g *Graph) error {
	var faults []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	must(g.States[g.Entry] != nil, "entry: no state %q", g.Entry)
	for name, n := range g.States {
		if n == nil {
			must(false, "state %q is empty", name)
			continue
		}
		must(n.Name == name, "state %q calls itself %q", name, n.Name)
		faults = append(faults, checkNode(g, n)...)
	}
	for name, tool := range g.Tools {
		_, ok := g.Artifacts[tool.ResultArtifact]
		must(ok || tool.ResultArtifact == "", "tool %q writes undeclared artifact %q", name, tool.ResultArtifact)
		must(tool.Timeout >= 0 && tool.Attempts >= 0 && tool.CostMicro >= 0 && tool.OnError != Retry && tool.OnError != Reconcile && tool.Retry.isSound() && (tool.Approval == nil || tool.Approval.Timeout >= 0), "tool %q: %+v", name, tool)
		must(effectsSound(g, &tool), "tool %q: effects of %+v", name, tool)
	}
	b := &g.Budget
	must(min(b.MaxTotalVisits, b.MaxToolCalls, b.MaxSteps, b.MaxReframes, g.MaxPendingSteps) >= 0 &&
		min(b.MaxTokens, b.MaxCostMicroUSD, g.MaxArtifactBytes, g.MaxRunArtifactBytes) >= 0 &&
		min(b.MaxWallTime, g.Lease) >= 0, "a budget or bound is below zero")
	for model, p := range g.Prices {
		must(model != "" && min(p.Input, p.Cached, p.Output, p.Reasoning) >= 0, "price of model %q: %+v", model, p)
	}
	must(g.OnBudget == "" || g.States[g.OnBudget] != nil, "on_budget: no state %q", g.OnBudget)
	must(g.Retry.isSound(), "retry: %+v", g.Retry)
	must(g.NoProgress == nil || g.NoProgress.Window >= 2, "no_progress: %+v", g.NoProgress)
	must(g.ModelCalls == nil || g.ModelCalls.Timeout >= 0 && g.ModelCalls.Retry.isSound() && g.ModelCalls.Unknown() <= Escalate, "calls of models: %+v", g.ModelCalls)
	return errors.Join(faults...)
}

// isSound reports whether all values are in range and no pause is shorter than the pause before it. It returns true for a
// nil policy.
func (p *RetryPolicy) isSound() bool {
	return p == nil || p.MaxAttempts >= 0 && min(p.Initial, p.Max) >= 0 &&
		(p.Multiplier == 0 || p.Multiplier >= 1000 && p.Multiplier <= 1_000_000) &&
		(p.Jitter == nil || *p.Jitter >= 0 && *p.Jitter <= 1_000_000)
}

// checkNode returns the faults of one state of a compiled graph.
func checkNode(g *Graph, n *Node) []error {
	var faults []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("state %q: %w", n.Name, fmt.Errorf(format, args...)))
		}
	}
	must(n.MaxVisits >= 0, "max_visits %d", n.MaxVisits)
	must(n.Terminal || len(n.OnEvent) > 0, "no events, so it has to be terminal")
	must(n.Outcome == StatusUnset || n.Terminal && (n.Outcome == Completed || n.Outcome == Failed), "outcome %s", n.Outcome)
	must(n.OnMaxVisits == "" || g.States[n.OnMaxVisits] != nil, "on_max_visits: no state %q", n.OnMaxVisits)
	for event, target := range n.OnEvent {
		must(g.States[target] != nil, "event %q: no state %q", event, target)
	}
	for event, limit := range n.MaxIterations {
		must(limit > 0 && n.OnEvent[event] != "", "max_iterations: %d of event %q", limit, event)
	}
	if n.Timeout != nil {
		must(n.Timeout.After > 0, "timeout after %s", n.Timeout.After)
		must(n.Terminal || n.OnEvent[n.Timeout.Event] != "", "timeout: event %q is not declared", n.Timeout.Event)
	}
	for _, name := range n.Artifacts {
		_, ok := g.Artifacts[name]
		must(ok, "artifact %q is not in the graph", name)
	}
	return faults
}

// effectsSound reports whether Reconcile and Compensate name valid tools of the graph. A valid tool is not an agent and
// has neither a compensation nor a business key. Only a compensating tool may have a reconcile tool.
func effectsSound(g *Graph, tool *Tool) bool {
	if (tool.OnUnknown == Reconcile) != (tool.Reconcile != "") || tool.Agent && tool.Reconcile != "" {
		return false
	}
	if asks := tool.Reconcile; asks != "" {
		if by, ok := g.Tools[asks]; !ok || by.Agent || by.Reconcile+by.Compensate != "" || len(by.Dedupe) > 0 {
			return false
		}
	}
	if compensator := tool.Compensate; compensator != "" {
		if by, ok := g.Tools[compensator]; !ok || by.Agent || by.Compensate != "" || len(by.Dedupe) > 0 {
			return false
		}
	}
	return true
}
