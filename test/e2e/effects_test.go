package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

// bank is the outside: what it did by idempotency key, which it honours, and how often for
// each order.
type bank struct {
	mu    sync.Mutex
	done  map[string]string
	times map[string]int
	calls atomic.Int64
}

func (b *bank) refund(key, order string) string {
	b.calls.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, repeated := b.done[key]; !repeated {
		b.done[key] = fmt.Sprintf("refund-%d", len(b.done)+1)
		b.times[order]++
	}
	return b.done[key]
}

const (
	refundOrders = 60
	refundRuns   = 5 // for each order
	refundKills  = 6
)

// TestOneRefundPerOrder lets many runs request refunds of the same orders at once, while the
// sidecar is killed repeatedly. The bank refunds each order once. Every other run gets the step
// that refunded it.
func TestOneRefundPerOrder(t *testing.T) {
	t.Parallel()
	s := newSidecar(t, "--pack", "testdata/refunds.json", "--allow-tool", "*", "--restart-grace", "300ms")
	s.start()
	ctx := deadline(t, 5*time.Minute)
	b := &bank{done: map[string]string{}, times: map[string]int{}}
	var paid, turns atomic.Int64
	clerk := func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
		view := turn.Assignment.GetTurn()
		if view.GetTerminal() {
			return pawl.Completion{}, nil
		}
		var given struct{ Order string }
		if err := json.Unmarshal([]byte(view.GetVariablesJson()), &given); err != nil {
			return pawl.Completion{}, err
		}
		_, err := turn.Step(ctx, "pay", "refund", fmt.Sprintf(`{"order":%q,"why":%q}`, given.Order, turn.Assignment.GetLease().GetRunId()))
		switch {
		case ctx.Err() != nil:
			return pawl.Completion{}, ctx.Err()
		case err == nil:
			paid.Add(1)
		case failedAs(err) == "DUPLICATE_EFFECT":
			turns.Add(1)
		default:
			t.Errorf("run %s: %v", turn.Assignment.GetLease().GetRunId(), err)
		}
		return pawl.Completion{Event: "Done"}, nil
	}
	defer startWorker(ctx, t, s, pawl.WorkerConfig{ID: "clerk", Turns: 8, Prompts: map[string]pawl.TurnFunc{"*": clerk}})()
	defer startWorker(ctx, t, s, pawl.WorkerConfig{ID: "teller", Steps: 4, Tools: map[string]pawl.ToolFunc{
		"refund": func(_ context.Context, step *pawl.Step) (json.RawMessage, error) {
			var asked struct{ Order string }
			if err := json.Unmarshal([]byte(step.Assignment.GetPayloadJson()), &asked); err != nil {
				return nil, err
			}
			return json.Marshal(map[string]string{"id": b.refund(step.IdempotencyKey(), asked.Order)})
		},
	}})()
	runs := s.runs()
	var ids sync.Map
	var starting sync.WaitGroup
	for n := range refundOrders * refundRuns {
		starting.Go(func() {
			got, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
				return runs.StartRun(ctx, &pawlv1.StartRunRequest{
					Pack: "refunds", Execution: pawlv1.Execution_EXECUTION_WORKERS, RequestId: fmt.Sprintf("run-%d", n),
					VariablesJson: fmt.Sprintf(`{"order":"order-%d"}`, n%refundOrders),
				})
			})
			if err != nil {
				t.Error(err)
				return
			}
			ids.Store(got.GetRun().GetRunId(), true)
		})
	}
	for range refundKills {
		seen := paid.Load() + turns.Load()
		want := min(seen+int64(5+rand.IntN(20)), refundOrders*refundRuns-1)
		eventually(t, "refunds are asked for", func() bool { return paid.Load()+turns.Load() >= want })
		s.kill()
		s.start()
	}
	starting.Wait()
	ids.Range(func(id, _ any) bool {
		eventually(t, "the run ends", func() bool {
			got, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: id.(string)})
			return err == nil && got.GetRun().GetStatus() == pawlv1.RunStatus_RUN_STATUS_COMPLETED
		})
		return true
	})
	for n := range refundOrders {
		if times := b.times[fmt.Sprintf("order-%d", n)]; times != 1 {
			t.Errorf("order %d was paid back %d times", n, times)
		}
	}
	t.Logf("%d orders, %d runs, %d kills: %d refunds, %d calls of the bank, %d told of another's", refundOrders, refundOrders*refundRuns, refundKills, len(b.done), b.calls.Load(), turns.Load())
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.check()
}

// failedAs is the code of a step that has no result.
func failedAs(err error) string {
	if failure, ok := errors.AsType[*pawl.Failure](err); ok {
		return failure.Code
	}
	return ""
}
