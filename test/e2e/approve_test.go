package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit"
)

// refunds are the effects: what each call paid, and how often it did.
type refunds struct {
	mu       sync.Mutex
	payments map[string][]string
}

func (r *refunds) pay(_ context.Context, step *pawl.Step) (json.RawMessage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := step.Assignment.GetIdempotencyKey()
	r.payments[key] = append(r.payments[key], step.Assignment.GetPayloadJson())
	return json.RawMessage(`"paid"`), nil
}

// heldTogether is how many calls of a run wait at once.
const heldTogether = 8

// refundTurn requests all refunds at once. Denials are answers of the requests.
func refundTurn(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
	if turn.Assignment.GetTurn().GetTerminal() {
		return pawl.Completion{}, nil
	}
	errs := make([]error, heldTogether)
	var wg sync.WaitGroup
	for i := range heldTogether {
		wg.Go(func() {
			_, err := turn.Step(ctx, strconv.Itoa(i), "refund", fmt.Sprintf(`{"amount":%d}`, 200+i))
			if failure, ok := errors.AsType[*pawl.Failure](err); ok && failure.Code == "DENIED" {
				err = nil
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return pawl.Completion{Event: "Done"}, errors.Join(errs...)
}

// verdict is what became of one of two decisions.
type verdict struct {
	decision pawlv1.StepDecision
	payload  string
	approved bool
	reason   string
}

// decideUntilTold repeats a decision with its id until the sidecar has answered it, even if the
// sidecar is killed meanwhile.
func decideUntilTold(ctx context.Context, t *testing.T, s func() pawlv1.ControlServiceClient, req *pawlv1.DecideStepRequest) verdict {
	v := verdict{decision: req.GetDecision(), payload: req.GetPayloadJson()}
	for ctx.Err() == nil {
		_, err := s().DecideStep(ctx, req)
		switch status.Code(err) {
		case codes.OK:
			v.approved = true
			return v
		case codes.Unavailable, codes.Canceled:
			continue
		}
		v.reason = pawl.ReasonOf(err)
		return v
	}
	t.Error("nobody told what became of a decision")
	return v
}

// TestKillWithApprovals lets two people decide about each held call at the same moment, while the
// sidecar is killed. One decision counts, the other one gets the first decision as its answer, and
// the call has the decided effect once (PAWL_DECISIONS, PAWL_KILLS).
func TestKillWithApprovals(t *testing.T) {
	t.Parallel()
	want, kills := 64, 4
	if n, err := strconv.Atoi(os.Getenv("PAWL_DECISIONS")); err == nil {
		want = n
	}
	if n, err := strconv.Atoi(os.Getenv("PAWL_KILLS")); err == nil {
		kills = n
	}
	ctx := deadline(t, 15*time.Minute)
	s := newSidecar(t, "--pack", "testdata/approve.pack.yaml", "--allow-tool", "*")
	s.start()
	effects := &refunds{payments: map[string][]string{}}
	stop := startWorker(ctx, t, s, pawl.WorkerConfig{
		ID: "clerk", Turns: 4, Steps: 64, Prompts: map[string]pawl.TurnFunc{"clerk": refundTurn}, Tools: map[string]pawl.ToolFunc{"refund": effects.pay},
	})
	defer stop()
	client := pawlv1.NewControlServiceClient(s.dial())
	control := func() pawlv1.ControlServiceClient { return client }
	rng := rand.New(rand.NewPCG(50, 34))
	decided, payments := map[string][2]verdict{}, 0
	for len(decided) < want {
		started, err := s.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "approve", Execution: pawlv1.Execution_EXECUTION_WORKERS})
		if err != nil {
			t.Fatal(err)
		}
		run := started.GetRun().GetRunId()
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, a := range heldCalls(ctx, t, control, run) {
			var both [2]verdict
			var pair sync.WaitGroup
			for i := range both {
				req := &pawlv1.DecideStepRequest{
					RunId: run, Step: a.GetCall().GetStep(), Digest: a.GetCall().GetApproval().GetDigest(),
					Decision: pawlv1.StepDecision(1 + rng.IntN(3)), RequestId: fmt.Sprintf("d%d", i), Reason: "because",
				}
				req.RequestId += "/" + strconv.Itoa(int(req.GetStep()))
				if req.GetDecision() == pawlv1.StepDecision_STEP_DECISION_EDIT {
					req.PayloadJson = fmt.Sprintf(`{"amount":%d}`, rng.IntN(90))
				}
				pair.Go(func() { both[i] = decideUntilTold(ctx, t, control, req) })
			}
			wg.Go(func() {
				pair.Wait()
				mu.Lock()
				defer mu.Unlock()
				for i := range both {
					if both[i].approved && both[i].decision == pawlv1.StepDecision_STEP_DECISION_APPROVE {
						both[i].payload = a.GetCall().GetPayloadJson()
					}
				}
				decided[a.GetCall().GetIdempotencyKey()] = both
			})
		}
		if payments < kills {
			s.kill()
			s.start()
			payments++
		}
		wg.Wait()
		if _, err := s.runs().WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run}); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	checkDecided(t, effects, decided)
	testkit.ReportTried(t, len(decided)+payments, "double decisions and kills")
	t.Logf("%d double decisions, %d kills", len(decided), payments)
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.check()
}

// heldCalls waits until all calls of a run are held and lists them.
func heldCalls(ctx context.Context, t *testing.T, control func() pawlv1.ControlServiceClient, run string) []*pawlv1.Approval {
	t.Helper()
	for ctx.Err() == nil {
		got, err := control().ListApprovals(ctx, &pawlv1.ListApprovalsRequest{RunId: run})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.GetApprovals()) == heldTogether {
			return got.GetApprovals()
		}
	}
	t.Fatal("the calls are not held")
	return nil
}

func checkDecided(t *testing.T, effects *refunds, decided map[string][2]verdict) {
	t.Helper()
	effects.mu.Lock()
	defer effects.mu.Unlock()
	for key, both := range decided {
		if both[0].approved == both[1].approved {
			t.Errorf("%s: %+v", key, both)
			continue
		}
		winner, loser := both[0], both[1]
		if loser.approved {
			winner, loser = loser, winner
		}
		if loser.reason != "ALREADY_DECIDED" && loser.reason != "NOTHING_TO_DECIDE" {
			t.Errorf("%s: the second was told %s", key, loser.reason)
		}
		paid := effects.payments[key]
		if winner.decision == pawlv1.StepDecision_STEP_DECISION_DENY {
			if len(paid) != 0 {
				t.Errorf("%s was denied, and paid %v", key, paid)
			}
			continue
		}
		if len(paid) != 1 || paid[0] != winner.payload {
			t.Errorf("%s: paid %v, decided %s %s", key, paid, winner.decision, winner.payload)
		}
	}
	for key := range effects.payments {
		if _, ok := decided[key]; !ok {
			t.Errorf("%s was paid without a decision", key)
		}
	}
}
