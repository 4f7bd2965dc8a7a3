package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit"
)

const (
	budgetMicros = 1_000_000 // what a run may spend, micro-dollars, as the pack says
	maxCost      = 5_000     // what a purchase costs at most
	// buyers and unitsPerBuyer are how many agents buy at once, and how much each.
	buyers, unitsPerBuyer = 8, 8
)

// shop sells: once for each key, however often it is asked, at a price of its own.
type shop struct {
	mu      sync.Mutex
	prices  map[string]int64
	revenue int64
	sales   atomic.Int64
}

// buy is the tool. It says what was paid.
func (s *shop) buy(_ context.Context, step *pawl.Step) (json.RawMessage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := step.Assignment.GetIdempotencyKey()
	price, known := s.prices[key]
	if !known {
		rng := rand.New(rand.NewPCG(uint64(len(s.prices)), 7))
		price = maxCost/2 + rng.Int64N(maxCost/2+1)
		s.prices[key] = price
		s.revenue += price
		s.sales.Add(1)
	}
	step.SetUsage(&pawlv1.Usage{CostMicroUsd: price})
	return json.RawMessage(strconv.FormatInt(price, 10)), nil
}

// buyerTurn buys eight things at once for as long as the lease holds them.
func buyerTurn(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
	remaining := turn.Assignment.GetTurn().GetRemaining().GetCostMicroUsd()
	for _, step := range turn.Assignment.GetTurn().GetSteps() {
		if step.GetStatus() == pawlv1.StepStatus_STEP_STATUS_OK {
			// What was left is that of now: what this visit spent before is not counted twice.
			paid, _ := strconv.ParseInt(step.GetResultJson(), 10, 64)
			remaining += paid
		}
	}
	bought := 0
	for round := 0; ; round++ {
		n := min(unitsPerBuyer, remaining/maxCost)
		if n == 0 {
			return pawl.Completion{Output: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: strconv.Itoa(bought)}}}}, nil
		}
		paid := make([]int64, n)
		errs := make([]error, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				result, err := turn.Step(ctx, fmt.Sprintf("%d/%d", round, i), "buy", `{}`)
				paid[i], _ = strconv.ParseInt(result, 10, 64)
				errs[i] = err
			})
		}
		wg.Wait()
		for i := range n {
			if errs[i] != nil {
				return pawl.Completion{}, errs[i]
			}
			remaining -= paid[i]
			bought++
		}
	}
}

// spenderTurn lets eight agents buy at once until none of them can buy anything any more.
func spenderTurn(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
	if turn.Assignment.GetTurn().GetTerminal() {
		return pawl.Completion{}, nil
	}
	for round := 0; ; round++ {
		var bought atomic.Int64
		var wg sync.WaitGroup
		for i := range buyers {
			wg.Go(func() {
				result, err := turn.Step(ctx, fmt.Sprintf("%d/%d", round, i), "buyer", `{"message":"buy"}`)
				var got struct{ Output string }
				if err == nil && json.Unmarshal([]byte(result), &got) == nil {
					n, _ := strconv.ParseInt(got.Output, 10, 64)
					bought.Add(n)
				}
			})
		}
		wg.Wait()
		if ctx.Err() != nil {
			return pawl.Completion{}, ctx.Err()
		}
		if bought.Load() == 0 {
			return pawl.Completion{Event: "Done"}, nil
		}
	}
}

// TestKillWithLedger: 64 purchases at once in 8 agents of another sidecar against a dollar,
// while either sidecar is killed again and again (PAWL_KILLS): not a cent too much is
// spent, and next to all of it can be.
func TestKillWithLedger(t *testing.T) {
	t.Parallel()
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("PAWL_KILLS")); err == nil {
		kills = n
	}
	args := []string{"--pack", "testdata/purse.pack.yaml", "--allow-tool", "*"}
	p := newPairOf(t, "purse/buyer", "buyer", args...)
	p.ctx = deadline(t, 15*time.Minute)
	s := &shop{prices: map[string]int64{}}
	stopLead := startWorker(p.ctx, t, p.a, pawl.WorkerConfig{ID: "lead", Turns: 4, Prompts: map[string]pawl.TurnFunc{"lead": spenderTurn}})
	defer stopLead()
	stopBuyers := startWorker(p.ctx, t, p.b, pawl.WorkerConfig{
		ID: "buyers", Turns: buyers, Steps: buyers * unitsPerBuyer, Prompts: map[string]pawl.TurnFunc{"buyer": buyerTurn}, Tools: map[string]pawl.ToolFunc{"buy": s.buy},
	})
	defer stopBuyers()
	rng := rand.New(rand.NewPCG(5, 6))
	payments, worst := 0, 1.0
	for runs := 0; runs == 0 || payments < kills; runs++ {
		before := s.total()
		got, err := p.a.runs().StartRun(p.ctx, &pawlv1.StartRunRequest{Pack: "purse", Execution: pawlv1.Execution_EXECUTION_WORKERS})
		if err != nil {
			t.Fatal(err)
		}
		run := got.GetRun().GetRunId()
		ended := make(chan *pawlv1.Run, 1)
		goesOn, over := context.WithCancel(p.ctx)
		go func() {
			ended <- p.end(p.a, run)
			over()
		}()
		var last *pawlv1.Run
		for last == nil {
			if payments < kills {
				play.AwaitCount(goesOn, t, &s.sales, s.sales.Load()+1+rng.Int64N(20))
			}
			select {
			case last = <-ended:
			default:
				if payments == kills {
					last = <-ended
					break
				}
				victim := []*sidecar{p.a, p.b}[rng.IntN(2)]
				victim.kill()
				victim.start()
				payments++
			}
		}
		spent := s.total() - before
		if last.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || last.GetReservedCostMicroUsd() != 0 {
			t.Errorf("run %s ended %v (%s) with %d reserved", run, last.GetStatus(), last.GetReason(), last.GetReservedCostMicroUsd())
		}
		if spent > budgetMicros || last.GetCostMicroUsd() > budgetMicros || last.GetCostMicroUsd() < spent {
			t.Errorf("run %s: %d spent, %d settled, of %d", run, spent, last.GetCostMicroUsd(), budgetMicros)
		}
		worst = min(worst, float64(spent)/budgetMicros)
		t.Logf("run %d: spent $%.4f, settled $%.4f of $1, %d kills so far", runs, float64(spent)/1e6, float64(last.GetCostMicroUsd())/1e6, payments)
	}
	if worst < 0.95 {
		t.Errorf("of the budget %.1f %% could be spent, want 95 %%", 100*worst)
	}
	testkit.ReportTried(t, payments, "kills")
	t.Logf("%d kills, %d purchases, overspent $0, worst use %.1f %%", payments, s.sales.Load(), 100*worst)
	stopLead()
	stopBuyers()
	p.check()
}

func (s *shop) total() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revenue
}
