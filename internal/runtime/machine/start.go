package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxDepth bounds delegations below delegations.
const MaxDepth = 8

// Defaults of [Limits].
const (
	DefaultMaxTransitions      = 10_000
	DefaultMaxArtifactBytes    = 64 << 10
	DefaultMaxRunArtifactBytes = 1 << 20
	DefaultMaxMessageBytes     = 4 << 20
	DefaultMaxQueuedInputs     = 16
)

// begin is Step for [Start]: the entry state is entered by section 3.
func begin(g *Graph, s *State, in Input, c Start) (Result, error) {
	if s != nil {
		return Result{State: s}, runExists(s)
	}
	if err := checkStart(g, &c); err != nil {
		return Result{}, err
	}
	// 0 means "no time" in every timer and deadline of a state.
	in.At = max(in.At, 1)
	t, err := newTxn(g, newState(g, &c, in.At), in)
	if err != nil {
		return Result{}, err
	}
	t.old = nil
	size := partsBytes(c.Input) + envelopeBytes(c.Envelope)
	if err := t.checkMessageBytes(size); err != nil {
		return Result{}, err
	}
	t.enter(entry{target: g.Entry, cause: CauseEntry})
	if len(c.Input) > 0 && !t.s.Status.Terminal() {
		seq := t.record(&InputReceived{Parts: c.Input, Envelope: c.Envelope})
		t.s.MessageBytes += size
		t.addMessage(seq)
	}
	return t.result(Accepted), nil
}

func checkStart(g *Graph, c *Start) error {
	if c.Execution != Caller && c.Execution != Workers {
		return &Refusal{
			Code: CodeInvalidArgument, Reason: "EXECUTION_REQUIRED", Field: "execution",
			Message: "say who executes the turns", Allowed: []string{"CALLER", "WORKERS"},
		}
	}
	if c.RunID == "" {
		return &Refusal{Code: CodeInvalidArgument, Reason: "RUN_ID_REQUIRED", Field: "run_id", Message: "must not be empty"}
	}
	if c.Depth < 0 || c.Depth > MaxDepth {
		return &Refusal{
			Code: CodeFailedPrecondition, Reason: "DEPTH_EXCEEDED", Field: "depth",
			Message: fmt.Sprintf("delegations nest at most %d deep", MaxDepth), Limit: MaxDepth, Got: int64(c.Depth),
		}
	}
	if g.States[g.Entry] == nil {
		return &Refusal{Code: CodeInternal, Reason: "GRAPH_INVALID", Field: "entry", Message: fmt.Sprintf("no state %q", g.Entry)}
	}
	return first(checkLabels(c.Labels), checkBounds(c))
}

func checkLabels(labels []Label) error {
	seen := make(map[string]bool, len(labels))
	for _, l := range labels {
		if l.Key == "" || seen[l.Key] {
			return &Refusal{
				Code: CodeInvalidArgument, Reason: "BAD_LABEL", Field: "labels[" + l.Key + "]",
				Message: "label keys must be unique and not empty",
			}
		}
		seen[l.Key] = true
	}
	return nil
}

// checkBounds refuses bounds below zero: they are no "unlimited".
func checkBounds(c *Start) error {
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
	}
	for _, b := range bounds {
		if b.n < 0 {
			return &Refusal{
				Code: CodeInvalidArgument, Reason: "BAD_LIMIT", Field: b.field,
				Message: "must be 0 (the default) or more", Got: b.n,
			}
		}
	}
	return nil
}

// newState is the run before its first record.
func newState(g *Graph, c *Start, at int64) *State {
	labels := slices.Clone(c.Labels)
	slices.SortFunc(labels, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	s := &State{
		Namespace: c.Namespace, RunID: c.RunID,
		Digest: g.Digest, PackID: g.PackID, PackVersion: g.PackVersion,
		Entry: g.Entry, Agent: g.Agent, EntryOverride: c.EntryOverride,
		Execution: c.Execution, Labels: labels, Limits: withDefaults(c.Limits),
		Parent: c.Parent, Depth: c.Depth, Task: c.Task,
		CreatedAt: at, At: at,
		MaxSteps: smaller(g.Budget.MaxSteps, c.MaxSteps),
	}
	if wall := smaller(g.Budget.MaxWallTime, c.MaxWallTime); wall > 0 {
		s.Deadline = addCapped(at, int64(wall))
	}
	return s
}

func withDefaults(l Limits) Limits {
	return Limits{
		MaxTransitions:      orDefault(l.MaxTransitions, DefaultMaxTransitions),
		MaxArtifactBytes:    orDefault(l.MaxArtifactBytes, DefaultMaxArtifactBytes),
		MaxRunArtifactBytes: orDefault(l.MaxRunArtifactBytes, DefaultMaxRunArtifactBytes),
		MaxMessageBytes:     orDefault(l.MaxMessageBytes, DefaultMaxMessageBytes),
		MaxQueuedInputs:     orDefault(l.MaxQueuedInputs, DefaultMaxQueuedInputs),
	}
}

func orDefault[N int | int64 | time.Duration](n, def N) N {
	if n == 0 {
		return def
	}
	return n
}

// smaller of two bounds of which 0 is none.
func smaller[N int | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
