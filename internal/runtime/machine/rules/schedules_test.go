package rules

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// purseGraph has tools and agents that cost, and no more money than a few of them take.
func purseGraph(rng *rand.Rand) *machine.Graph {
	g := &machine.Graph{
		Digest: "sha256:aa", PackID: "purse", PackVersion: "1", Entry: "a", Ledger: true, MaxPendingSteps: 2 + rng.IntN(7),
		States: map[string]*machine.Node{
			"a":    {Name: "a", Prompt: "p", OnEvent: map[string]string{"Go": "b"}},
			"b":    {Name: "b", Prompt: "p", OnEvent: map[string]string{"Go": "a", "End": "done"}},
			"wrap": {Name: "wrap", Prompt: "p", OnEvent: map[string]string{"Go": "a"}},
			"done": {Name: "done", Prompt: "p", Terminal: true},
		},
		Prompts: map[string]*machine.Prompt{"p": {Tools: map[string]bool{"t": true, "agent": true}}},
		Tools: map[string]machine.Tool{
			"t":     {CostMicro: 1 + rng.Int64N(30), Attempts: 1 + rng.IntN(3), OnUnknown: machine.OnFault(rng.IntN(2))},
			"agent": {Agent: true, CostMicro: rng.Int64N(60), Attempts: 1 + rng.IntN(2), OnUnknown: machine.OnFault(rng.IntN(2))},
		},
		Budget: machine.Budget{MaxCostMicroUSD: 50 + rng.Int64N(200), MaxTokens: []int64{0, 100 + rng.Int64N(200)}[rng.IntN(2)]},
	}
	if rng.IntN(2) == 0 {
		g.OnBudget = "wrap"
	}
	return g
}

// attempt names an attempt of a step.
type attempt struct {
	step    uint32
	attempt int
}

// payer is one run of the tree, and the real cost of its attempts.
type payer struct {
	s     *machine.State
	depth int
	// lease is what its parent leased to it.
	lease machine.Amount
	// paid is the real cost of each attempt of a tool or a model. It counts as soon as the attempt
	// is requested, because the worker that makes the attempt may never report it.
	paid map[attempt]machine.Usage
	// requests are the requests to models. answered says which of them have an answer.
	requests map[attempt]machine.RequestModel
	answered map[attempt]bool
	// children are the runs of delegations.
	children map[attempt]*payer
}

// tree is a run with all that it delegated, and everything that was really spent.
type tree struct {
	t      *testing.T
	seed   uint64
	rng    *rand.Rand
	g      *machine.Graph
	at     int64
	root   *payer
	payers []*payer
	real   machine.Amount
}

// apply steps one run; a refusal changes nothing.
func (w *tree) apply(p *payer, c machine.Command) {
	w.at += int64(time.Second)
	r, err := Step(w.g, p.s, machine.Input{At: w.at, Command: c, Semantics: machine.Current})
	if err != nil || r.Batch == nil {
		return
	}
	if err := errors.Join(CheckChange(p.s, r.State, r.Batch.Records), CheckSettled(p.s, r.Batch)); err != nil {
		w.t.Fatalf("seed %d: %T: %v", w.seed, c, err)
	}
	p.s = r.State
	if err := CheckState(p.s, w.g); err != nil {
		w.t.Fatalf("seed %d: %T: %v", w.seed, c, err)
	}
	w.spend(p, c)
	w.check(c)
}

// spend adds the real cost of the steps that a command requested: at once, and at most their bound.
func (w *tree) spend(p *payer, c machine.Command) {
	for i := range p.s.Steps {
		step := &p.s.Steps[i]
		key := attempt{step.Step, step.Attempt}
		_, known := p.paid[key]
		if known || step.Status != machine.StepStatusPending {
			continue
		}
		if step.Delegation {
			p.paid[key] = machine.Usage{}
			w.begin(p, key, step.Bound)
			continue
		}
		bound := BoundOf(step)
		cost := machine.Usage{InputTokens: w.upTo(bound.Tokens), CostMicro: w.upTo(bound.CostMicro)}
		p.paid[key] = cost
		w.real.Tokens, w.real.CostMicro = w.real.Tokens+cost.InputTokens, w.real.CostMicro+cost.CostMicro
		if asked, ok := c.(machine.RequestModel); ok && step.Model != nil {
			p.requests[key] = asked
		}
	}
}

// upTo returns n in half of the cases, otherwise a random number up to n.
func (w *tree) upTo(n int64) int64 {
	if w.rng.IntN(2) == 0 {
		return n
	}
	return w.rng.Int64N(n + 1)
}

// begin starts the run of a delegation.
func (w *tree) begin(parent *payer, key attempt, lease machine.Amount) {
	child := &payer{depth: parent.depth + 1, lease: lease, paid: map[attempt]machine.Usage{}, requests: map[attempt]machine.RequestModel{}, answered: map[attempt]bool{}, children: map[attempt]*payer{}}
	parent.children[key] = child
	w.payers = append(w.payers, child)
	w.apply(child, machine.Start{RunID: fmt.Sprint(len(w.payers)), Execution: machine.Caller, Depth: child.depth, Lease: lease})
}

// check fails the test if the recorded or the real spending is above the budget of the root.
func (w *tree) check(c machine.Command) {
	limit := LimitOf(w.g, w.root.s)
	for _, p := range w.payers {
		if p.s == nil {
			continue
		}
		holds, gone := LimitOf(w.g, p.s), CommittedAmount(p.s)
		if gone.CostMicro > holds.CostMicro || holds.Tokens > 0 && gone.Tokens > holds.Tokens {
			w.t.Fatalf("seed %d: %T: run %s has %+v consumed or reserved of %+v", w.seed, c, p.s.RunID, gone, holds)
		}
		if tokens, cost := Reserved(p.s, -1); p.s.Status.Terminal() && tokens+cost != 0 {
			w.t.Fatalf("seed %d: %T: run %s ended with %d tokens and %d micro-dollars reserved", w.seed, c, p.s.RunID, tokens, cost)
		}
	}
	if w.real.CostMicro > limit.CostMicro || limit.Tokens > 0 && w.real.Tokens > limit.Tokens {
		w.t.Fatalf("seed %d: %T: %+v was spent of %+v", w.seed, c, w.real, limit)
	}
}

// checkLent fails the test if the amount that is shown as lent is not the sum of the leases of the
// child runs that are in progress.
func (w *tree) checkLent() {
	for _, p := range w.payers {
		var lent machine.Amount
		for key, child := range p.children {
			if i := slices.IndexFunc(p.s.Steps, func(s machine.ToolStep) bool {
				return s.Step == key.step && s.Attempt == key.attempt && s.Status == machine.StepStatusPending
			}); i >= 0 {
				lent.Tokens, lent.CostMicro = lent.Tokens+child.lease.Tokens, lent.CostMicro+child.lease.CostMicro
			}
		}
		if got := LeasedAmount(p.s); got != lent {
			w.t.Fatalf("seed %d: run %s has lent %+v, its children have %+v", w.seed, p.s.RunID, got, lent)
		}
	}
}

// act makes a random input to a run. Most inputs are those that a run needs next.
func (w *tree) act(p *payer) {
	s := p.s
	turn, try := uint64(0), 0
	if s.Turn != nil {
		turn, try = s.Turn.Seq, s.Turn.Attempt
	}
	switch n := w.rng.IntN(20); {
	case n < 5:
		c := machine.RequestSteps{TurnSeq: turn, Attempt: try}
		for range 1 + w.rng.IntN(4) {
			tool := []string{"t", "t", "agent"}[w.rng.IntN(3)]
			if p.depth >= 3 {
				tool = "t"
			}
			payload := []byte(fmt.Sprint(len(p.paid), len(c.Requests)))
			c.Requests = append(c.Requests, machine.StepRequest{Key: string(payload), Tool: tool, Payload: payload, PayloadHash: sha256.Sum256(payload)})
		}
		w.apply(p, c)
	case n < 9:
		c := machine.RequestModel{
			TurnSeq: turn, Attempt: try, Round: 1 + w.rng.IntN(4), Model: &machine.ModelRequest{Model: "m"},
			Bound: machine.Usage{InputTokens: 1 + w.rng.Int64N(30), CostMicro: 1 + w.rng.Int64N(30)}, Assigned: &machine.Assignment{Worker: "w", Delivery: 1 + w.rng.IntN(3), At: 1},
		}
		for _, h := range s.RequiredMessages {
			c.Model.IncludedSeqs = append(c.Model.IncludedSeqs, h.Seq)
		}
		w.apply(p, c)
	case n < 15:
		w.answer(p)
	case n < 16:
		w.apply(p, machine.EmitEvent{Event: []string{"Go", "Go", "End"}[w.rng.IntN(3)], Outside: true})
	case n < 17:
		w.apply(p, machine.FailTurn{TurnSeq: turn, Attempt: try, Error: machine.Fault{Code: "X"}, Retryable: true})
	case n < 18:
		if timers := Timers(s); len(timers) > 0 {
			timer := timers[w.rng.IntN(len(timers))]
			w.apply(p, machine.FireTimer{Kind: timer.Kind, Step: timer.Step, Turn: timer.Turn, Due: timer.Due})
		}
	case n < 19 && p == w.root:
		limit := LimitOf(w.g, s)
		w.apply(p, machine.RaiseBudget{To: machine.Amount{CostMicro: limit.CostMicro + w.rng.Int64N(20)}, Reason: "more"})
	default:
		w.apply(p, []machine.Command{machine.Cancel{}, machine.Stop{}, machine.Steer{Text: "x", When: machine.SteerNow}, machine.CompleteTurn{TurnSeq: turn, Attempt: try}}[w.rng.IntN(4)])
	}
}

// answer reports the outcome of a random attempt, possibly late. An attempt of a model is answered only once.
func (w *tree) answer(p *payer) {
	var keys []attempt
	for key := range p.paid {
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, func(a, b attempt) int { return int(a.step)*100 + a.attempt - int(b.step)*100 - b.attempt })
	key := keys[w.rng.IntN(len(keys))]
	paid, ok := p.paid[key], w.rng.IntN(3) > 0
	if asked, model := p.requests[key]; model {
		if p.answered[key] {
			return
		}
		p.answered[key] = true
		c := machine.AnswerModel{TurnSeq: asked.TurnSeq, TurnAttempt: asked.Attempt, Assigned: asked.Assigned, Step: key.step, Attempt: key.attempt, Usage: paid}
		if c.Error.Code = "X"; ok {
			c.Answer, c.Error = &machine.ModelAnswer{}, machine.Fault{}
		}
		w.apply(p, c)
		return
	}
	c := machine.ResolveStep{Step: key.step, Attempt: key.attempt, Tool: "t", OK: ok, Usage: paid, Metered: w.rng.IntN(2) == 0, Result: []byte("1")}
	if child := p.children[key]; child != nil {
		if !child.s.Status.Terminal() {
			return
		}
		settled := ConsumedAmount(child.s)
		c.Tool, c.Usage, c.Metered = "agent", machine.Usage{InputTokens: settled.Tokens, CostMicro: settled.CostMicro}, true
	} else if !c.Metered {
		c.Usage = machine.Usage{}
	}
	if i := FindStep(p.s.Steps, key.step); i < 0 || p.s.Steps[i].Attempt != key.attempt {
		return
	}
	if !ok {
		c.Result, c.Error = nil, machine.Fault{Code: "X"}
	}
	if w.rng.IntN(6) == 0 {
		w.apply(p, machine.LoseStep{Step: key.step, Attempt: key.attempt})
		return
	}
	w.apply(p, c)
}

// TestLedgerSchedules: steps are requested, answered, lost, cancelled and stopped in random order,
// in a run and all runs that it delegates to. What is consumed and reserved is never above the
// budget, what was really spent is not either, and at the end nothing is reserved.
func TestLedgerSchedules(t *testing.T) {
	t.Parallel()
	const schedules = 10_000
	var used, runs int64
	for seed := range uint64(schedules) {
		rng := rand.New(rand.NewPCG(seed, 12))
		w := &tree{t: t, seed: seed, rng: rng, g: purseGraph(rng), at: epoch}
		w.root = &payer{paid: map[attempt]machine.Usage{}, requests: map[attempt]machine.RequestModel{}, answered: map[attempt]bool{}, children: map[attempt]*payer{}}
		w.payers = []*payer{w.root}
		w.apply(w.root, machine.Start{RunID: "R", Execution: machine.Caller})
		for range 20 + rng.IntN(60) {
			w.act(w.payers[rng.IntN(len(w.payers))])
			w.checkLent()
		}
		for _, p := range slices.Backward(w.payers) {
			w.apply(p, machine.Cancel{})
		}
		for _, p := range w.payers {
			if tokens, cost := Reserved(p.s, -1); tokens+cost != 0 || !p.s.Status.Terminal() {
				t.Fatalf("seed %d: run %s is %s with %d tokens and %d micro-dollars reserved", seed, p.s.RunID, p.s.Status, tokens, cost)
			}
		}
		used, runs = used+w.real.CostMicro, runs+int64(len(w.payers))
	}
	t.Logf("%d schedules, %d runs, %d micro-dollars spent", schedules, runs, used)
}
