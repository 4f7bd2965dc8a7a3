package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// begin is Step for [machine.Start]: the entry state is entered by section 3.
func begin(g *machine.Graph, s *machine.State, in machine.Input, c machine.Start) (machine.Result, error) {
	if s != nil {
		return machine.Result{State: s}, runExists(s)
	}
	if err := checkStart(g, &c); err != nil {
		return machine.Result{}, err
	}
	// 0 means "no time" in every timer and deadline of a state.
	in.At = max(in.At, 1)
	t, err := newTxn(g, newState(g, &c, in.At), in)
	if err != nil {
		return machine.Result{}, err
	}
	t.old = nil
	size := partsBytes(c.Input) + envelopeBytes(c.Envelope)
	if err := t.checkMessageBytes(size); err != nil {
		return machine.Result{}, err
	}
	t.enter(entry{target: g.Entry, cause: machine.CauseEntry})
	if len(c.Input) > 0 && !t.s.Status.Terminal() {
		seq := t.record(&machine.InputReceived{Parts: c.Input, Envelope: c.Envelope})
		t.s.MessageBytes += size
		t.addMessage(seq)
	}
	return t.result(machine.Accepted), nil
}

func checkStart(g *machine.Graph, c *machine.Start) error {
	if !c.Execution.Known() {
		return &machine.Refusal{
			Code: machine.CodeInvalidArgument, Reason: "EXECUTION_REQUIRED", Field: "execution",
			Message: "say who executes the turns", Allowed: []string{"CALLER", "WORKERS", "SIDECAR"},
		}
	}
	if c.RunID == "" {
		return &machine.Refusal{Code: machine.CodeInvalidArgument, Reason: "RUN_ID_REQUIRED", Field: "run_id", Message: "must not be empty"}
	}
	if c.Depth < 0 || c.Depth > machine.MaxDepth {
		return &machine.Refusal{
			Code: machine.CodeFailedPrecondition, Reason: "DEPTH_EXCEEDED", Field: "depth",
			Message: fmt.Sprintf("delegations nest at most %d deep", machine.MaxDepth), Limit: machine.MaxDepth, Got: int64(c.Depth),
		}
	}
	if g.States[g.Entry] == nil {
		return &machine.Refusal{Code: machine.CodeInternal, Reason: "GRAPH_INVALID", Field: "entry", Message: fmt.Sprintf("no state %q", g.Entry)}
	}
	return first(checkLabels(c.Labels), checkBounds(c))
}

func checkLabels(labels []machine.Label) error {
	seen := make(map[string]bool, len(labels))
	for _, l := range labels {
		if l.Key == "" || seen[l.Key] {
			return &machine.Refusal{
				Code: machine.CodeInvalidArgument, Reason: "BAD_LABEL", Field: "labels[" + l.Key + "]",
				Message: "label keys must be unique and not empty",
			}
		}
		seen[l.Key] = true
	}
	return nil
}

// checkBounds refuses bounds below zero: they are no "unlimited".
func checkBounds(c *machine.Start) error {
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
	}
	for _, b := range bounds {
		if b.n < 0 {
			return &machine.Refusal{
				Code: machine.CodeInvalidArgument, Reason: "BAD_LIMIT", Field: b.field,
				Message: "must be 0 (the default) or more", Got: b.n,
			}
		}
	}
	return nil
}

// newState is the run before its first record.
func newState(g *machine.Graph, c *machine.Start, at int64) *machine.State {
	labels := slices.Clone(c.Labels)
	slices.SortFunc(labels, func(a, b machine.Label) int { return strings.Compare(a.Key, b.Key) })
	s := &machine.State{
		Namespace: c.Namespace, RunID: c.RunID,
		Digest: g.Digest, PackID: g.PackID, PackVersion: g.PackVersion,
		Entry: g.Entry, Agent: g.Agent, EntryOverride: c.EntryOverride,
		Execution: c.Execution, Labels: labels, Limits: withDefaults(c.Limits),
		Parent: c.Parent, Depth: c.Depth, Task: c.Task,
		CreatedAt: at, At: at,
		MaxSteps: smaller(g.Budget.MaxSteps, c.MaxSteps),
		Erasable: g.Erasable,
	}
	if c.Lease != (machine.Amount{}) {
		s.Account = &machine.Account{Leased: true, Limit: machine.Amount{
			Tokens: smaller(g.Budget.MaxTokens, c.Lease.Tokens), CostMicro: smaller(g.Budget.MaxCostMicroUSD, c.Lease.CostMicro),
		}}
	}
	if wall := smaller(g.Budget.MaxWallTime, c.MaxWallTime); wall > 0 {
		s.Deadline = addCapped(at, int64(wall))
	}
	return s
}

func withDefaults(l machine.Limits) machine.Limits {
	return machine.Limits{
		MaxTransitions:      orDefault(l.MaxTransitions, machine.DefaultMaxTransitions),
		MaxArtifactBytes:    orDefault(l.MaxArtifactBytes, machine.DefaultMaxArtifactBytes),
		MaxRunArtifactBytes: orDefault(l.MaxRunArtifactBytes, machine.DefaultMaxRunArtifactBytes),
		MaxMessageBytes:     orDefault(l.MaxMessageBytes, machine.DefaultMaxMessageBytes),
		MaxQueuedInputs:     orDefault(l.MaxQueuedInputs, machine.DefaultMaxQueuedInputs),
	}
}

func orDefault[N int | int64 | time.Duration](n, def N) N {
	if n == 0 {
		return def
	}
	return n
}

// smaller of two bounds of which 0 is none.
func smaller[N int | int64 | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
