package budget

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules/invariant"
)

// family has runs that ask each other's agents, under one ledger with the account "tenant=acme/ever".
type family struct {
	t    *testing.T
	l    *Ledger
	runs []*member
	// version is the semantics of the inputs.
	version machine.Semantics
	// mixed: some inputs are of an older program, and some agents are elsewhere.
	mixed bool
}

// member is a run, and the step that began it.
type member struct {
	*run
	parent *member
	step   uint32
	// counted is what the accounts should have counted of the run, computed from its records: what it asked
	// models for, and what it settled of agents that do not count themselves.
	counted int64
	local   map[uint32]bool
}

func newFamily(t *testing.T, limit int64) *family {
	return &family{t: t, version: machine.Current, l: New(tableOf(t, Account{Label: "tenant", Window: Ever, MaxTokens: limit}), nil)}
}

// teamGraph lets a run ask agents, in a pack with or without a budget.
func teamGraph(budget int64) *machine.Graph {
	g := graph()
	g.States["s"].Prompt, g.Budget.MaxTokens, g.MaxPendingSteps = "p", budget, 4
	g.Prompts = map[string]*machine.Prompt{"p": {Name: "p", Tools: map[string]bool{"helper": true}}}
	g.Tools = map[string]machine.Tool{"helper": {Agent: true, Attempts: 3, TurnTokens: 50}}
	return g
}

// begin begins a run: with labels of its own, or for a step of another run.
func (f *family) begin(budget int64, start machine.Start, parent *member, step uint32) *member {
	f.t.Helper()
	m := &member{run: &run{t: f.t, l: f.l, g: teamGraph(budget), at: noon}, parent: parent, step: step, local: map[uint32]bool{}}
	start.RunID, start.Execution = fmt.Sprint("R", len(f.runs)), machine.Caller
	f.runs = append(f.runs, m)
	f.take(m, start)
	return m
}

// take commits an input. It counts the usage of the run from the new records alone.
func (f *family) take(m *member, c machine.Command) machine.Result {
	f.t.Helper()
	result, hold, err := f.l.Decide(m.g, m.s, machine.Input{At: m.at.UnixNano(), Command: c, Semantics: f.version})
	hold.Close(err == nil)
	if err != nil {
		f.t.Fatalf("%T: %v", c, err)
	}
	before := m.s
	m.s = result.State
	if result.Batch == nil {
		return result
	}
	if err := invariant.CheckSettled(before, result.Batch); err != nil {
		f.t.Fatalf("%T: %v", c, err)
	}
	for _, r := range result.Batch.Records {
		switch b := r.Body.(type) {
		case *machine.StepRequested:
			m.local[b.Step] = b.Local
		case *machine.StepResolved:
			f.count(m, b.Step, b.Usage)
		case *machine.StepCancelled:
			f.count(m, b.Step, b.Usage)
		case *machine.ModelUpdated:
			f.count(m, b.Step, b.Usage)
		case *machine.TurnCompleted:
			f.count(m, 0, b.Usage)
		}
	}
	return result
}

func (f *family) count(m *member, step uint32, u machine.Usage) {
	_, itself := m.s.AccountLabels()
	if itself && !m.local[step] {
		m.counted += u.InputTokens + u.OutputTokens
	}
}

// asks makes a run ask an agent and returns the step; 0 = it was refused. local: the agent is in the same
// sidecar.
func (f *family) asks(m *member, local bool) uint32 {
	f.t.Helper()
	result := f.take(m, machine.RequestSteps{TurnSeq: m.s.Turn.Seq, Attempt: m.s.Turn.Attempt, Requests: []machine.StepRequest{{Tool: "helper", Payload: []byte("{}"), Local: local}}})
	return result.Steps[0].Step
}

// child begins the run of a step's agent, with the data of the delegation.
func (f *family) child(m *member, step uint32) *member {
	f.t.Helper()
	start := machine.Start{Parent: &machine.Parent{RunID: m.s.RunID, Step: step, Attempt: 1}}
	for i := range m.s.Steps {
		if p := &m.s.Steps[i]; p.Step == step {
			start.Lease, start.Parent.Attempt = p.Bound, p.Attempt
			if p.Local {
				labels, _ := m.s.AccountLabels()
				start.Payer = &machine.Payer{Labels: labels}
			}
		}
	}
	return f.begin(0, start, m, step)
}

// says makes a run ask a model, which consumes used tokens. It returns false if the request was refused.
func (f *family) says(m *member, bound, used int64) bool {
	f.t.Helper()
	m.rounds++
	ask := m.asked(bound)
	for _, h := range m.s.RequiredMessages {
		ask.Model.Messages, ask.Model.IncludedSeqs = append(ask.Model.Messages, machine.ModelMessage{IncludedSeq: h.Seq}), append(ask.Model.IncludedSeqs, h.Seq)
	}
	asked := f.take(m, ask)
	if asked.Steps[0].Step == 0 {
		return false
	}
	f.take(m, machine.AnswerModel{
		TurnSeq: m.s.Turn.Seq, TurnAttempt: 1, Step: asked.Steps[0].Step, Attempt: 1,
		Answer: &machine.ModelAnswer{Parts: []machine.Part{{Kind: machine.PartText, Text: "x"}}}, Usage: machine.Usage{OutputTokens: used, Model: "m"},
	})
	return true
}

// report ends the step of a child's run with what the child consumed.
func (f *family) report(m *member, ok bool) {
	f.t.Helper()
	tokens := rules.ConsumedAmount(m.s)
	c := machine.ResolveStep{Step: m.step, Tool: "helper", Attempt: m.s.Parent.Attempt, OK: ok, Metered: true, Usage: machine.Usage{InputTokens: tokens.Tokens}}
	if ok {
		c.Result = []byte("1")
	} else {
		c.Error = machine.Fault{Code: "BROKEN"}
	}
	f.take(m.parent, c)
}

// holds fails the test unless the account is the sum of what its runs count. It returns what is settled.
func (f *family) holds(when string) (settled int64) {
	f.t.Helper()
	for _, m := range f.runs {
		settled += m.counted
	}
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if row := f.l.row(0, "tenant=acme/ever"); row.Tokens != settled {
		f.t.Fatalf("%s: the account has %d settled, its runs %d", when, row.Tokens, settled)
	}
	return settled
}

func (f *family) heldIs(want int64) {
	f.t.Helper()
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	if row := f.l.row(0, "tenant=acme/ever"); row.HeldTokens != want {
		f.t.Errorf("%d tokens are held, want %d", row.HeldTokens, want)
	}
}

// TestAgentsCountThemselves: for each end of a delegation, the run of its agent is counted once: by itself if
// the step says so, and by the step otherwise.
func TestAgentsCountThemselves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		version machine.Semantics
		local   bool
		budget  int64
		// end ends the delegation of a child that has consumed 70.
		end func(f *family, parent, child *member)
		// want is what is settled on the account. held is what is reserved while the child works.
		want, held int64
	}{
		"answered":               {machine.Current, true, 0, func(f *family, _, child *member) { f.report(child, true) }, 70, 0},
		"failed":                 {machine.Current, true, 0, func(f *family, _, child *member) { f.report(child, false) }, 70, 0},
		"cancelled":              {machine.Current, true, 0, func(f *family, parent, _ *member) { f.take(parent, machine.Cancel{}) }, 70, 0},
		"cancelled with a lease": {machine.Current, true, 400, func(f *family, parent, _ *member) { f.take(parent, machine.Cancel{}) }, 70, 0},
		"over its lease":         {machine.Current, true, 50, func(f *family, _, child *member) { f.report(child, true) }, 70, 0},
		"lost":                   {machine.Current, true, 400, lose, 70, 0},
		"elsewhere":              {machine.Current, false, 400, func(f *family, _, child *member) { f.report(child, true) }, 70, 100},
		"elsewhere, over":        {machine.Current, false, 50, func(f *family, _, child *member) { f.report(child, true) }, 50, 50},
		"elsewhere, cancelled":   {machine.Current, false, 400, func(f *family, parent, _ *member) { f.take(parent, machine.Cancel{}) }, 100, 100},
		"elsewhere, lost":        {machine.Current, false, 400, lose, 100, 100},
		"older, answered":        {machine.SemanticsLeases, true, 400, func(f *family, _, child *member) { f.report(child, true) }, 70, 100},
		"older, over its lease":  {machine.SemanticsLeases, true, 50, func(f *family, _, child *member) { f.report(child, true) }, 50, 50},
		"older, then as it is now": {machine.SemanticsLeases, true, 400, func(f *family, _, child *member) {
			f.version = machine.Current
			f.says(child, 20, 20)
			f.report(child, true)
		}, 90, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, 1000)
			f.version = c.version
			parent := f.begin(c.budget, machine.Start{Labels: []machine.Label{acme}}, nil, 0)
			child := f.child(parent, f.asks(parent, c.local))
			f.heldIs(c.held)
			f.says(child, min(70, cmp.Or(c.budget, 70)), 70)
			c.end(f, parent, child)
			if got := f.holds("in the end"); got != c.want {
				t.Errorf("%d tokens are settled, want %d", got, c.want)
			}
			if spent, _ := rules.SettledInAccounts(parent.s); spent+parent.s.Apart.Tokens != parent.s.Tokens {
				t.Errorf("the run has %d tokens, %d of them in its accounts and %d apart", parent.s.Tokens, spent, parent.s.Apart.Tokens)
			}
		})
	}
}

// lose ends a delegation with an unknown outcome of the agent's run.
func lose(f *family, parent, child *member) {
	f.take(parent, machine.ResolveStep{Step: child.step, Tool: "helper", Attempt: 1, Error: machine.Fault{Code: "GONE"}, Unknown: true, Final: true})
}

// TestFullAccountHoldsAgents: the run of an agent without a lease cannot use more than the account has, and
// neither can the runs of its own agents. A step that begins such a run needs no room in the account.
func TestFullAccountHoldsAgents(t *testing.T) {
	t.Parallel()
	f := newFamily(t, 100)
	parent := f.begin(0, machine.Start{Labels: []machine.Label{acme}}, nil, 0)
	child := f.child(parent, f.asks(parent, true))
	grandchild := f.child(child, f.asks(child, true))
	if !f.says(child, 40, 40) || !f.says(grandchild, 50, 50) {
		t.Fatal("what the account holds is refused")
	}
	if f.says(grandchild, 11, 11) || grandchild.s.Reason != "account_exhausted:tenant=acme/ever" {
		t.Errorf("a run of an agent goes on: %s %s", grandchild.s.Status, grandchild.s.Reason)
	}
	f.report(grandchild, false)
	if again := f.asks(child, true); again == 0 {
		t.Error("a step that charges nothing is refused")
	}
	if f.says(parent, 11, 11) || parent.s.Reason != "account_exhausted:tenant=acme/ever" {
		t.Errorf("the run itself goes on: %s %s", parent.s.Status, parent.s.Reason)
	}
	if got := f.holds("in the end"); got != 90 {
		t.Errorf("%d tokens are settled, want 90", got)
	}
}

// TestRunsInNoAccountHaveNoLocalAgents: the step that began a run of an older program counts this run. It
// counts the runs of its agents too.
func TestRunsInNoAccountHaveNoLocalAgents(t *testing.T) {
	t.Parallel()
	f := newFamily(t, 1000)
	f.version = machine.SemanticsLeases
	parent := f.begin(400, machine.Start{Labels: []machine.Label{acme}}, nil, 0)
	child := f.child(parent, f.asks(parent, true))
	f.version = machine.Current
	grandchild := f.child(child, f.asks(child, true))
	f.says(grandchild, 30, 30)
	f.report(grandchild, true)
	f.report(child, true)
	if got := f.holds("in the end"); got != 30 {
		t.Errorf("%d tokens are settled, want 30", got)
	}
}

// TestFamiliesAddUp: runs of every kind ask, answer, fail, are lost and are cancelled in any order. At each
// moment the account is the sum of what its runs count. If each run counts itself, the account is never over
// its limit.
func TestFamiliesAddUp(t *testing.T) {
	t.Parallel()
	refused := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 84))
		f := newFamily(t, 200)
		f.mixed = seed%2 == 0
		for range 80 {
			f.any(random)
			if settled := f.holds(fmt.Sprint("seed ", seed)); settled > 200 && !f.mixed {
				t.Fatalf("seed %d: %d tokens are settled of 200", seed, settled)
			}
		}
		for _, m := range f.runs {
			if m.s.Reason == "account_exhausted:tenant=acme/ever" && m.parent != nil {
				refused++
			}
		}
	}
	if refused == 0 {
		t.Error("no agent met the limit")
	}
}

// any performs one random action.
func (f *family) any(random *rand.Rand) {
	f.version = machine.Current
	if f.mixed && random.IntN(3) == 0 {
		f.version = machine.SemanticsLeases
	}
	if len(f.runs) == 0 || random.IntN(10) == 0 {
		f.begin(int64(random.IntN(2)*800), machine.Start{Labels: []machine.Label{acme}}, nil, 0)
		return
	}
	m := f.runs[random.IntN(len(f.runs))]
	if m.s.Status != machine.Running {
		return
	}
	switch random.IntN(8) {
	case 0:
		f.take(m, machine.Cancel{})
	case 1, 2, 3:
		used := 1 + random.Int64N(30)
		f.says(m, used+random.Int64N(10), used)
	case 4, 5:
		if len(f.runs) < 12 && len(m.s.Steps) < 3 {
			if step := f.asks(m, !f.mixed || random.IntN(3) > 0); step != 0 {
				f.child(m, step)
			}
		}
	case 6:
		if m.parent != nil && m.parent.s.Status == machine.Running {
			f.report(m, random.IntN(3) > 0)
		}
	case 7:
		if m.parent != nil && m.parent.s.Status == machine.Running {
			lose(f, m.parent, m)
		}
	}
}
