//go:build sim

package simulation

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

//go:embed testdata/till.json
var tillDocument []byte

// tillPack is the pack whose runs keep a ledger and whose calls people approve.
const tillPack = "till"

// costs are what testdata/till.json says that one attempt costs at most, in micro-dollars.
var costs = map[string]int64{"buy": 30, "pay": 40, "refund": 20}

// sells are the prompts of testdata/till.json.
var sells = map[string]bool{"cashier": true, "runner": true, "porter": true, "closer": true}

// till is what was sold outside of the sidecars. It is the true amount, independent of the sidecars'
// records.
type till struct {
	world *world
	mu    sync.Mutex
	sales []*sale
}

// sale is one attempt of a tool, which costs each time that it is made.
type sale struct {
	stepID
	attempt       int32
	tool, payload string
	price         int64
}

func newTill(w *world) *till { return &till{world: w} }

// of returns what was paid for a run's own calls.
func (t *till) of(n *node, run string) (paid int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sales {
		if s.node == n.name && s.run == run {
			paid += s.price
		}
	}
	return paid
}

// sold records a payment. An attempt may be delivered twice if the worker's answer was lost. It is
// recognized by its key and paid once.
func (t *till) sold(s *sale) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.ContainsFunc(t.sales, func(other *sale) bool { return other.stepID == s.stepID && other.attempt == s.attempt }) {
		t.sales = append(t.sales, s)
	}
}

// sell is a tool that costs money. The payment happens before any fault, and sometimes the result is
// not reported.
func (m *workman) sell(ctx context.Context, s *pawl.Step) (json.RawMessage, error) {
	lease := s.Assignment.GetLease()
	m.world.tools.keyed(s)
	m.world.tools.order(s)
	dice := diceOf(lease.GetRunId(), uint64(lease.GetStep()), uint64(lease.GetAttempt()), 17)
	sold := &sale{
		stepID:  stepID{m.node.name, lease.GetRunId(), lease.GetStep()},
		attempt: lease.GetAttempt(), tool: lease.GetTool(), payload: s.Assignment.GetPayloadJson(), price: 1 + dice.Int64N(costs[lease.GetTool()]),
	}
	m.world.till.sold(sold)
	m.world.deciders.ran(sold)
	if dice.IntN(3) > 0 {
		s.SetUsage(&pawlv1.Usage{CostMicroUsd: sold.price})
	}
	if !m.world.healing {
		if err := pause(ctx, time.Duration(dice.IntN(800))*time.Millisecond); err != nil {
			return nil, err
		}
		if dice.IntN(5) == 0 {
			return nil, &pawl.Failure{Code: "DECLINED", Message: "try again"}
		}
	}
	return fmt.Appendf(nil, `{"paid":%d}`, sold.price), nil
}

// wares returns the payload with which a turn of testdata/till.json calls a tool or an agent.
func wares(tool, name string, dice *rand.Rand) string {
	switch tool {
	case "runner", "porter":
		return letterOf(dice, "go "+name)
	case "book":
		return seatOf(dice)
	}
	return fmt.Sprintf(`{%s,"item":%q}`, amountOf(dice, 20+10*dice.IntN(7)), name)
}

// shop is a turn of testdata/till.json: up to four calls at once, of which each costs.
func (m *workman) shop(ctx context.Context, t *pawl.Turn, dice *rand.Rand) (pawl.Completion, error) {
	turn := t.Assignment.GetTurn()
	tools := turn.GetTools()
	if turn.GetTerminal() {
		tools = nil
	}
	var all sync.WaitGroup
	if len(tools) > 0 {
		for i := range dice.IntN(5) {
			tool, key := tools[dice.IntN(len(tools))].GetName(), fmt.Sprintf("s%d", i)
			payload := wares(tool, fmt.Sprintf("%d.%d", t.Assignment.GetLease().GetTurnSeq(), i), diceOf(key, t.Assignment.GetLease().GetTurnSeq()))
			all.Go(func() { _, _ = t.Step(ctx, key+tool, tool, payload) })
		}
	}
	if turn.GetPrompt() == "runner" || turn.GetPrompt() == "porter" {
		all.Go(func() { _, _ = t.Step(ctx, "tip", "tip", `{}`) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return pawl.Completion{}, ctx.Err()
	}
	return pawl.Completion{Event: m.event(turn, dice), Output: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "done"}}}}, nil
}

// startTill starts a run of a tenant.
func (pp *people) startTill(n *node, dice *rand.Rand) {
	id, execution := pp.id(), pick(dice, machine.Workers, machine.Workers, machine.Caller, machine.Sidecar)
	input := []machine.Part{{Kind: machine.PartText, Text: id}}
	labels := []machine.Label{{Key: "tenant", Value: pick(dice, "acme", "acme", "zeta")}}
	pp.ask(n, "start till "+id, callSeen{object: n.name, id: id, who: driver.Principal, command: machine.Start{}}, func(ctx context.Context, p *process) (runtime.Answer, error) {
		answer, err := p.house.StartRun(ctx, runtime.StartRequest{Call: driver, Pack: tillPack, RequestID: id, Execution: execution, Input: input, Labels: labels})
		if err == nil && p.ctx.Err() == nil && !answer.Duplicate {
			pp.runs[n] = append(pp.runs[n], answer.RunID)
		}
		return answer, err
	})
}

// treasurer is the only principal that raises budgets.
var treasurer = runtime.Call{Principal: runtime.Principal{Subject: "treasurer", Scopes: policy.RunsRead | policy.BudgetsWrite}}

// raise raises the budget of a run, or tries to.
func (pp *people) raise(n *node, run string, dice *rand.Rand) {
	s := pp.world.oracle(n).spent[run]
	if s == nil || !s.keepsLedger {
		return
	}
	id, who := pp.id(), pick(dice, treasurer, treasurer, treasurer, approver)
	to := machine.Amount{CostMicro: s.limit.CostMicro - 20 + 10*dice.Int64N(12)}
	if dice.IntN(3) == 0 {
		to.Tokens = s.limit.Tokens + 10*dice.Int64N(8)
	}
	command := machine.RaiseBudget{To: to, Reason: "more is needed"}
	seen := callSeen{object: n.name + "/" + run, id: id, who: who.Principal, command: command}
	pp.ask(n, fmt.Sprintf("raise %s of %s to %d by %s", id, short(run), to.CostMicro, who.Principal.Name()), seen, func(ctx context.Context, p *process) (runtime.Answer, error) {
		return p.house.Apply(ctx, runtime.Request{RunRef: runtime.RunRef{Call: who, RunID: run}, ID: id, Command: command})
	})
}

// purse is the money of a run, computed from its records without the machine.
type purse struct {
	// keepsLedger means that the run is one of testdata/till.json. leased means that it has a lease.
	keepsLedger, leased bool
	limit               machine.Amount
	// reserved is what the requested attempts may consume and have not yet reported.
	reserved map[attemptID]machine.Amount
	// parent is the step that gave the run its lease. models is what the run's own model calls cost.
	parent *machine.Parent
	models int64
	ended  bool
	// lease is the lease of the run itself. loans are the leases that it gave to its agents.
	lease machine.Amount
	loans map[uint32]*loan
	// untold is the consumption without a reservation: no bound was given, or the reservation was
	// returned at the end of the run.
	untold machine.Amount
	// counted, heldBefore and untoldBefore are the parts of the purse that accounts have counted.
	counted, heldBefore, untoldBefore machine.Amount
}

// attemptID names an attempt of a model call. For tools, whose attempts follow each other, it names the step.
type attemptID struct {
	step    uint32
	attempt int
}

// The budget of testdata/till.json.
var tillLimit = machine.Amount{Tokens: 1500, CostMicro: 300}

// opens begins a purse with the first entry of a run.
func (p *purse) opens(e *machine.Entry, pack string) {
	p.reserved, p.loans = map[attemptID]machine.Amount{}, map[uint32]*loan{}
	p.limit = machine.Amount{Tokens: maxTokens, CostMicro: maxCost}
	if pack == tillPack {
		p.keepsLedger, p.limit = true, tillLimit
	}
	start, ok := e.Input.Command.(machine.Start)
	if !ok {
		return
	}
	p.parent = start.Parent
	if lease := start.Lease; lease != (machine.Amount{}) {
		p.leased, p.lease = true, lease
		p.limit.Tokens, p.limit.CostMicro = least(p.limit.Tokens, lease.Tokens), least(p.limit.CostMicro, lease.CostMicro)
	}
}

// least returns the smaller of two bounds. 0 as other means that there is only one.
func least(limit, other int64) int64 {
	if other > 0 {
		return min(limit, other)
	}
	return limit
}

// sum returns what is consumed and reserved.
func (s *spent) sum() machine.Amount {
	all := machine.Amount{Tokens: s.tokens, CostMicro: s.cost}
	for _, b := range s.reserved {
		all.Tokens, all.CostMicro = all.Tokens+b.Tokens, all.CostMicro+b.CostMicro
	}
	return all
}

// lent returns how many tool calls the running agents may make.
func (s *spent) lent() (calls int64) {
	for _, b := range s.reserved {
		calls += b.ToolCalls
	}
	return calls
}

// paid checks one record against the budget.
func (o *oracle) paid(e *machine.Entry, r *machine.Record, s *spent) {
	o.lends(e, r, s)
	switch b := r.Body.(type) {
	case *machine.StepRequested:
		if b.Tool == "tip" { // the cashier's block list has it, and every till begins with a cashier
			o.world.fail("what a run may not call its agents may not", "%s: step %d of %s", o.node.name, b.Step, e.RunID)
		}
		id, bound := attemptID{step: b.Step}, machine.Amount{Tokens: b.Bound.InputTokens + b.Bound.OutputTokens, CostMicro: b.Bound.CostMicro, ToolCalls: int64(b.Bound.ToolCalls)}
		if b.Kind == machine.KindModel && s.keepsLedger {
			id.attempt = b.Attempt
		}
		s.reserved[id] = bound
		o.affords(e, b, s, bound)
	case *machine.StepRejected:
		o.refused(e, b, s)
	case *machine.StepResolved:
		o.names(e, b)
		o.told(b, s)
	case *machine.StepCancelled:
		if b.Kind != machine.KindModel || !s.keepsLedger {
			delete(s.reserved, attemptID{step: b.Step})
		}
	case *machine.ModelUpdated:
		s.models += b.Usage.CostMicro
		if b.Usage != (machine.Usage{}) {
			s.unreserved(attemptID{b.Step, b.Attempt}, &b.Usage)
			delete(s.reserved, attemptID{b.Step, b.Attempt})
		}
	case *machine.BudgetRaised:
		if e.Input.Principal != treasurer.Principal.Name() || s.leased || b.From != s.limit {
			o.world.fail("only the treasurer raises a budget", "%s: record %d of %s raises %+v to %+v by %q, leased %v, the limit was %+v",
				o.node.name, r.Seq, e.RunID, b.From, b.To, e.Input.Principal, s.leased, s.limit)
		}
		s.limit = b.To
	case *machine.Ended:
		s.ended, s.reserved = true, map[attemptID]machine.Amount{}
	}
	if all := s.sum(); s.keepsLedger && (all.Tokens > s.limit.Tokens+s.untold.Tokens || all.CostMicro > s.limit.CostMicro+s.untold.CostMicro) {
		o.world.fail("no budget is overspent", "%s: behind record %d of %s %+v is consumed or reserved of %+v: %+v", o.node.name, r.Seq, e.RunID, all, s.limit, s.reserved)
	}
}

// estimated is the largest estimate of the sidecar's own executor for a call. It counts the bytes of
// the request, and the endpoint consumes less.
var estimated = machine.Amount{Tokens: 1000, CostMicro: 67}

// refused checks that no call is refused if the budget covers it.
func (o *oracle) refused(e *machine.Entry, b *machine.StepRejected, s *spent) {
	need := machine.Amount{CostMicro: costs[b.Tool]}
	switch {
	case b.Denial.Code != "MAX_COST_USD" && b.Denial.Code != "MAX_TOKENS" || !s.keepsLedger:
		return
	case b.Kind == machine.KindModel:
		need = machine.Amount{Tokens: mostInput + mostOutput, CostMicro: 1 + 4*mostOutput}
		if state := o.states[e.RunID]; state != nil && state.Execution == machine.Sidecar {
			need = estimated
		}
	case b.Tool == "runner":
		need = machine.Amount{Tokens: 1, CostMicro: 120}
	case b.Tool == "porter":
		need = machine.Amount{Tokens: 1, CostMicro: 1}
	}
	all := s.sum()
	if all.Tokens+need.Tokens <= s.limit.Tokens && all.CostMicro+need.CostMicro <= s.limit.CostMicro {
		o.world.fail("nothing is refused that fits", "%s: %s of %s is refused (%s) with %+v consumed or reserved of %+v: %+v",
			o.node.name, b.Tool, e.RunID, b.Denial.Code, all, s.limit, s.reserved)
	}
}

// unreserved records the consumption of an attempt that no reservation covers: all of it, or the part
// above the bound.
func (p *purse) unreserved(id attemptID, u *machine.Usage) {
	bound := p.reserved[id]
	p.untold.Tokens += max(0, u.InputTokens+u.OutputTokens-bound.Tokens)
	p.untold.CostMicro += max(0, u.CostMicro-bound.CostMicro)
}

// names checks that an answer belongs to the attempt that it names.
func (o *oracle) names(e *machine.Entry, b *machine.StepResolved) {
	if c, ok := e.Input.Command.(machine.ResolveStep); ok && c.Step == b.Step && c.Attempt != b.Attempt {
		o.world.fail("an answer is one to its attempt", "%s: attempt %d of step %d of %s is answered by record %d, and the answer names attempt %d",
			o.node.name, b.Attempt, b.Step, e.RunID, e.First, c.Attempt)
	}
}

// affords checks that a request fits into the budget beside everything that was consumed, including
// consumption above a bound.
func (o *oracle) affords(e *machine.Entry, b *machine.StepRequested, s *spent, bound machine.Amount) {
	all := s.sum()
	if s.keepsLedger && b.About == nil && (bound.Tokens > 0 && all.Tokens > s.limit.Tokens || bound.CostMicro > 0 && all.CostMicro > s.limit.CostMicro) {
		o.world.fail("who has passed a budget asks for nothing", "%s: step %d of %s is asked for with %+v consumed or reserved of %+v: %+v",
			o.node.name, b.Step, e.RunID, all, s.limit, s.reserved)
	}
}

// stops checks that a run does not continue after a turn with which it exceeded its budget.
func (o *oracle) stops(e *machine.Entry, s *spent) {
	state := o.states[e.RunID]
	if state == nil || state.Status.Terminal() || state.Undo != nil || s.tokens <= s.limit.Tokens && s.cost <= s.limit.CostMicro {
		return
	}
	over := false
	for i := range e.Records {
		switch b := e.Records[i].Body.(type) {
		case *machine.TurnCompleted:
			over = true
		case *machine.Transition:
			if b.Cause == machine.CauseBudget {
				return
			}
		}
	}
	if over {
		o.world.fail("who has passed a budget stops there", "%s: %s goes on behind record %d with %d tokens and %d micro-dollars of %+v",
			o.node.name, e.RunID, e.First, s.tokens, s.cost, s.limit)
	}
}

// `told` returns the reservation of an attempt.
func (o *oracle) told(b *machine.StepResolved, s *spent) {
	if b.Kind == machine.KindModel {
		s.models += b.Usage.CostMicro
	}
	if b.Kind != machine.KindModel || !s.keepsLedger {
		if b.Next == 0 {
			delete(s.reserved, attemptID{step: b.Step})
		}
		return
	}
	id := attemptID{b.Step, b.Attempt}
	bound := s.reserved[id]
	s.unreserved(id, &b.Usage)
	if !b.Unknown {
		delete(s.reserved, id)
	}
	if b.Next > 0 {
		s.reserved[attemptID{b.Step, b.Next}] = bound
	}
}

// outside returns the cost of a run and of its delegations, as the outside tools recorded it.
func (w *world) outside(n *node, run string) int64 {
	o := w.oracle(n)
	paid := w.till.of(n, run)
	if s := o.spent[run]; s != nil {
		paid += s.models
	}
	for child, s := range w.oracle(n.other).spent {
		if s.parent != nil && s.parent.RunID == run {
			paid += w.outside(n.other, child)
		}
	}
	return paid
}

// solvent checks that the cost of each run is not above its budget, and not above the cost that its
// records show.
func (w *world) solvent() {
	for i, n := range w.stores {
		for run, s := range w.oracles[i].spent {
			if !s.keepsLedger {
				continue
			}
			paid := w.outside(n, run)
			if paid > s.limit.CostMicro+s.untold.CostMicro {
				w.fail("no run is overspent", "%s: %s and its agents cost %d micro-dollars outside, of %d", n.name, run, paid, s.limit.CostMicro)
			}
			if s.ended && paid > s.cost {
				w.fail("what was paid is settled", "%s: %s and its agents cost %d micro-dollars outside, it has settled %d", n.name, run, paid, s.cost)
			}
		}
	}
}
