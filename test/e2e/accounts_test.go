package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
	"github.com/pawl-dev/pawl/test/testkit"
)

const (
	tenantLimit = 1_000_000 // of acme, micro-dollars; a token costs one
	tenantRuns  = 64
	callBound   = 4_000
)

func budgetsFile(t *testing.T, usd float64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "budgets.yaml")
	writeBudgets(t, path, usd)
	return path
}

// writeBudgets puts a file in place of the one that is there.
func writeBudgets(t *testing.T, path string, usd float64) {
	t.Helper()
	text := fmt.Sprintf("accounts:\n  - {label: tenant, window: ever, max_cost_usd: 0.5}\n"+
		"  - {label: tenant, value: acme, window: ever, max_cost_usd: %g}\n  - {window: month, max_tokens: 100000000}\n", usd)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// talker asks models until an account does not hold the next call.
func talker(calls *atomic.Int64) pawl.TurnFunc {
	return func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
		for round := int32(1); ; round++ {
			rng := rand.New(rand.NewPCG(uint64(round), uint64(len(turn.Assignment.GetLease().GetRunId()))+uint64(round)))
			bound := 1 + rng.Int64N(callBound)
			got, err := turn.RequestModel(ctx, round, &pawlv1.ModelRequest{Model: "m", Messages: []*pawlv1.ModelMessage{
				{Content: &pawlv1.ModelMessage_Message{Message: &pawlv1.Message{Role: "user", Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "go on"}}}}}},
			}}, &pawlv1.Usage{OutputTokens: bound})
			if err != nil || got.GetDenial() != nil {
				return pawl.Completion{}, err
			}
			if got.GetStep().GetStatus() != pawlv1.StepStatus_STEP_STATUS_PENDING {
				continue
			}
			calls.Add(1)
			_, err = turn.AnswerModel(ctx, &pawlv1.AnswerModelRequest{
				Step: got.GetStep().GetStep(), Attempt: got.GetStep().GetAttempt(), Usage: &pawlv1.Usage{OutputTokens: bound / 2, Model: "m"},
				Outcome: &pawlv1.AnswerModelRequest_Answer{Answer: &pawlv1.ModelAnswer{
					Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "so"}}}, FinishReason: "stop",
				}},
			})
			if err != nil {
				return pawl.Completion{}, err
			}
		}
	}
}

func (s *sidecar) accounts(ctx context.Context) map[string]*pawlv1.Account {
	s.t.Helper()
	got, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.ListBudgetsResponse, error) {
		return pawlv1.NewControlServiceClient(s.dial()).ListBudgets(ctx, &pawlv1.ListBudgetsRequest{})
	})
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]*pawlv1.Account{}
	for _, a := range got.GetAccounts() {
		all[a.GetName()] = a
	}
	return all
}

// TestKillWithAccounts: 64 runs of one tenant and two others ask models at once, while the
// sidecar is killed again and again (PAWL_KILLS). No account is ever over its limit, each is
// the sum of its runs, a raise by SIGHUP counts, and the check agrees.
func TestKillWithAccounts(t *testing.T) {
	t.Parallel()
	kills := 6
	if n, err := strconv.Atoi(os.Getenv("PAWL_KILLS")); err == nil {
		kills = n
	}
	budgets := budgetsFile(t, tenantLimit/2e6)
	s := newSidecar(t, "--pack", "testdata/tenants.pack.yaml", "--budgets", budgets, "--restart-grace", "200ms")
	s.start()
	ctx := deadline(t, 10*time.Minute)
	var calls atomic.Int64
	defer startWorker(ctx, t, s, pawl.WorkerConfig{ID: "talkers", Turns: 80, Prompts: map[string]pawl.TurnFunc{"talk": talker(&calls)}})()
	runs := map[string][]string{}
	start := func(tenant string) {
		id := fmt.Sprintf("%s-%d", tenant, len(runs[tenant]))
		got, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
			return s.runs().StartRun(ctx, &pawlv1.StartRunRequest{
				Pack: "tenants", Execution: pawlv1.Execution_EXECUTION_WORKERS, RequestId: id, Labels: map[string]string{"tenant": tenant},
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		runs[tenant] = append(runs[tenant], got.GetRun().GetRunId())
	}
	for range tenantRuns {
		start("acme")
	}
	start("b")
	start("c")
	limit := func(name string, most int64) {
		a := s.accounts(ctx)[name]
		if got := a.GetSettledCostMicroUsd() + a.GetReservedCostMicroUsd(); got > most {
			t.Errorf("%s: %d settled and reserved of %d", name, got, most)
		}
	}
	for n := range kills {
		seen := calls.Load()
		eventually(t, "models are asked", func() bool {
			return calls.Load() >= seen+1+rand.Int64N(10) || s.accounts(ctx)["tenant=acme/ever"].GetReservedCostMicroUsd() == 0
		})
		s.kill()
		s.start()
		limit("tenant=acme/ever", tenantLimit/2)
		limit("tenant=b/ever", tenantLimit/2)
		if n == kills/2 {
			start("late")
		}
	}
	ended := func(tenant string) (sum int64) {
		for _, id := range runs[tenant] {
			var run *pawlv1.Run
			eventually(t, "the run ends", func() bool {
				got, err := s.runs().WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: id})
				run = got.GetRun()
				return err == nil && !got.GetTimedOut()
			})
			if run.GetReason() != "account_exhausted:tenant="+tenant+"/ever" {
				t.Errorf("run %s of %s ended %v (%s)", id, tenant, run.GetStatus(), run.GetReason())
			}
			sum += run.GetCostMicroUsd()
		}
		return sum
	}
	var total int64
	settled := func(tenant string, most int64) {
		t.Helper()
		sum, a := ended(tenant), s.accounts(ctx)["tenant="+tenant+"/ever"]
		if a.GetSettledCostMicroUsd() != sum || a.GetReservedCostMicroUsd() != 0 || a.GetMaxCostMicroUsd() != most {
			t.Errorf("the account is %v, its runs have %d", a, sum)
		}
		if sum > most || sum < most*95/100 {
			t.Errorf("%s: %d of %d were used", tenant, sum, most)
		}
		total += sum
		t.Logf("%s: %d runs used %d of %d", tenant, len(runs[tenant]), sum, most)
	}
	settled("acme", tenantLimit/2)
	total = 0
	writeBudgets(t, budgets, tenantLimit/1e6)
	if err := syscall.Kill(s.cmd.Process.Pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the raise counts", func() bool { return s.accounts(ctx)["tenant=acme/ever"].GetMaxCostMicroUsd() == tenantLimit })
	start("acme")
	for tenant := range runs {
		settled(tenant, map[bool]int64{true: tenantLimit, false: tenantLimit / 2}[tenant == "acme"])
	}
	for name, a := range s.accounts(ctx) {
		if a.GetWindowEnd() != nil && a.GetSettledTokens() != total {
			t.Errorf("%s has %d tokens, all runs %d", name, a.GetSettledTokens(), total)
		}
	}
	testkit.ReportTried(t, kills, "kills")
	t.Logf("%d kills, %d calls of models", kills, calls.Load())
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.check()
}
