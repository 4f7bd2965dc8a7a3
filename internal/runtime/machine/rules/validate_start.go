package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// CheckStart checks the execution, the id, the depth, the labels and the bounds of a start.
func CheckStart(g *machine.Graph, c *machine.Start) error {
	if !c.Execution.Known() {
		return &machine.Error{
			Code: machine.CodeInvalidArgument, Reason: "EXECUTION_REQUIRED", Field: "execution",
			Message: "say who executes the turns", Allowed: []string{"CALLER", "WORKERS", "SIDECAR"},
		}
	}
	if c.RunID == "" {
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "RUN_ID_REQUIRED", Field: "run_id", Message: "must not be empty"}
	}
	if c.Depth < 0 || c.Depth > machine.MaxDepth {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "DEPTH_EXCEEDED", Field: "depth",
			Message: fmt.Sprintf("delegations nest at most %d deep", machine.MaxDepth), Limit: machine.MaxDepth, Got: int64(c.Depth),
		}
	}
	if g.States[g.Entry] == nil {
		return &machine.Error{Code: machine.CodeInternal, Reason: "GRAPH_INVALID", Field: "entry", Message: fmt.Sprintf("no state %q", g.Entry)}
	}
	return First(CheckLabels(c.Labels), CheckBounds(c))
}

// CheckLabels checks that label keys are unique and not empty.
func CheckLabels(labels []machine.Label) error {
	seen := make(map[string]bool, len(labels))
	for _, l := range labels {
		if l.Key == "" || seen[l.Key] {
			return &machine.Error{
				Code: machine.CodeInvalidArgument, Reason: "BAD_LABEL", Field: "labels[" + l.Key + "]",
				Message: "label keys must be unique and not empty",
			}
		}
		seen[l.Key] = true
	}
	return nil
}

// CheckBounds returns an error for negative bounds. A negative bound does not mean "unlimited".
func CheckBounds(c *machine.Start) error {
	l := &c.Limits
	bounds := []struct {
		field string
		n     int64
	}{
		{"limits.max_transitions", int64(l.MaxTransitions)},
		{"limits.max_artifact_bytes", l.MaxArtifactBytes},
		{"limits.max_run_artifact_bytes", l.MaxRunArtifactBytes},
		{"limits.max_message_bytes", l.MaxMessageBytes},
		{"limits.max_queued_inputs", int64(l.MaxQueuedInputs)},
		{"max_wall_time", int64(c.MaxWallTime)},
		{"max_steps", int64(c.MaxSteps)},
		{"lease.tokens", c.Lease.Tokens},
		{"lease.cost_micro_usd", c.Lease.CostMicro},
		{"lease.tool_calls", c.Lease.ToolCalls},
	}
	for _, b := range bounds {
		if b.n < 0 {
			return &machine.Error{
				Code: machine.CodeInvalidArgument, Reason: "BAD_LIMIT", Field: b.field,
				Message: "must be 0 (the default) or more", Got: b.n,
			}
		}
	}
	return nil
}

// WithDefaults returns the limits with the default for each limit that is not set.
func WithDefaults(l machine.Limits) machine.Limits {
	return machine.Limits{
		MaxTransitions:      OrDefault(l.MaxTransitions, machine.DefaultMaxTransitions),
		MaxArtifactBytes:    OrDefault(l.MaxArtifactBytes, machine.DefaultMaxArtifactBytes),
		MaxRunArtifactBytes: OrDefault(l.MaxRunArtifactBytes, machine.DefaultMaxRunArtifactBytes),
		MaxMessageBytes:     OrDefault(l.MaxMessageBytes, machine.DefaultMaxMessageBytes),
		MaxQueuedInputs:     OrDefault(l.MaxQueuedInputs, machine.DefaultMaxQueuedInputs),
	}
}

// RunExists returns the error for a start with a run id that is already used.
func RunExists(s *machine.State) error {
	return &machine.Error{
		Code: machine.CodeAlreadyExists, Reason: "RUN_EXISTS", Field: "run_id", Message: "the run exists: " + s.RunID, Seq: s.Seq,
	}
}

// CheckSource checks that the source of a fork had not ended and that the graph has everything that the
// copy needs.
func CheckSource(g *machine.Graph, c *machine.Fork) error {
	if c.From == nil {
		return &machine.Error{Code: machine.CodeInternal, Reason: "FORK_INVALID", Field: "from", Message: "a fork needs its source's state"}
	}
	if c.From.Status.Terminal() {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "FORK_TERMINAL", Field: "at_seq", Seq: c.From.Seq,
			Message: fmt.Sprintf("the run had ended %s (%s) there: fork it at an earlier record", c.From.Status, c.From.Reason),
		}
	}
	if c.From.Undo != nil {
		return &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "FORK_COMPENSATING", Field: "at_seq", Seq: c.From.Seq,
			Message: "the run's effects were being undone there: fork it at an earlier record",
		}
	}
	return First(CheckStates(g, c.From), CheckHeads(g, c.From), CheckQueued(c))
}

// CheckStates checks that every visited state exists in the graph.
func CheckStates(g *machine.Graph, from *machine.State) error {
	var missing []string
	for _, v := range append([]machine.Count{{State: from.Current}}, from.Visits...) {
		if g.States[v.State] == nil && !slices.Contains(missing, v.State) {
			missing = append(missing, v.State)
		}
	}
	if missing == nil {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "FORK_STATE_MISSING", Field: "pack", Allowed: StateNames(g),
		Message: fmt.Sprintf("the run visited %s, which %s@%s does not have", strings.Join(missing, ", "), g.PackID, g.PackVersion),
	}
}

// StateNames returns the states of a graph, sorted.
func StateNames(g *machine.Graph) []string {
	names := make([]string, 0, len(g.States))
	for name := range g.States {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// CheckHeads checks that every artifact is declared with its type and mode.
func CheckHeads(g *machine.Graph, from *machine.State) error {
	for i := range from.Artifacts {
		h := &from.Artifacts[i]
		if decl, ok := g.Artifacts[h.Name]; !ok || decl.Type != h.Type || decl.Mode != h.Mode {
			return &machine.Error{
				Code: machine.CodeFailedPrecondition, Reason: "FORK_ARTIFACT_MISMATCH", Field: Field(h.Name),
				Message: fmt.Sprintf("%s@%s does not declare it as the run has it (%s)", g.PackID, g.PackVersion, h.Type),
			}
		}
	}
	return nil
}

// CheckQueued checks that the inputs that were waiting for the end of the open turn fit in the queue of
// the copy. Steering messages are not counted.
func CheckQueued(c *machine.Fork) error {
	limit, got := WithDefaults(c.Limits).MaxQueuedInputs, 0
	for i := range c.Queued {
		if c.Queued[i].Steer == "" {
			got++
		}
	}
	if got <= limit {
		return nil
	}
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "INPUT_QUEUE_FULL", Field: "at_seq",
		Message: fmt.Sprintf("%d inputs waited for the open turn", got), Limit: int64(limit), Got: int64(got),
	}
}
