package rules

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// begin implements Step for [machine.Start]. It enters the entry state as described in semantics §3.
func begin(g *machine.Graph, s *machine.State, in machine.Input, c machine.Start) (machine.Result, error) {
	if s != nil {
		return machine.Result{State: s}, RunExists(s)
	}
	if err := CheckStart(g, &c); err != nil {
		return machine.Result{}, err
	}
	// The time must not be 0, because 0 in a timer or deadline of a state means that there is none.
	in.At = max(in.At, 1)
	t, err := newTxn(g, newState(g, &c, in.At), in)
	if err != nil {
		return machine.Result{}, err
	}
	t.old = nil
	size := PartsBytes(c.Input) + EnvelopeBytes(c.Envelope)
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

// newState returns the state of a run before its first record.
func newState(g *machine.Graph, c *machine.Start, at int64) *machine.State {
	labels := slices.Clone(c.Labels)
	slices.SortFunc(labels, func(a, b machine.Label) int { return strings.Compare(a.Key, b.Key) })
	s := &machine.State{
		Namespace: c.Namespace, RunID: c.RunID,
		Digest: g.Digest, PackID: g.PackID, PackVersion: g.PackVersion,
		Entry: g.Entry, Agent: g.Agent, EntryOverride: c.EntryOverride,
		Execution: c.Execution, Labels: labels, Limits: WithDefaults(c.Limits),
		Parent: c.Parent, Depth: c.Depth, Task: c.Task,
		CreatedAt: at, At: at,
		MaxSteps: smaller(g.Budget.MaxSteps, c.MaxSteps),
		Erasable: g.Erasable, Policy: c.Policy, Payer: c.Payer,
	}
	if c.Lease != (machine.Amount{}) {
		s.Account = &machine.Account{Leased: true, Limit: machine.Amount{
			Tokens: smaller(g.Budget.MaxTokens, c.Lease.Tokens), CostMicro: smaller(g.Budget.MaxCostMicroUSD, c.Lease.CostMicro),
			ToolCalls: c.Lease.ToolCalls,
		}}
	}
	if wall := smaller(g.Budget.MaxWallTime, c.MaxWallTime); wall > 0 {
		s.Deadline = AddCapped(at, int64(wall))
	}
	return s
}

// smaller returns the smaller one of two bounds. A bound of 0 means that there is no bound.
func smaller[N int | int64 | time.Duration](a, b N) N {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
