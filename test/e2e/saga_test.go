package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/e2e/play"
)

// world is the outside of sagas: what was done in each run, in order, each thing once by its
// idempotency key.
type world struct {
	mu      sync.Mutex
	keys    map[string]bool
	effects map[string][]string
	actions atomic.Int64
}

// record records "TOOL KEY" of a run, unless the key did it before.
func (w *world) record(run, tool, key string) {
	w.actions.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if id := tool + " " + key; !w.keys[id] {
		w.keys[id] = true
		w.effects[run] = append(w.effects[run], id)
	}
}

func (w *world) hasRecorded(tool, key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.keys[tool+" "+key]
}

// undoing maps each compensate tool to the tool that it compensates.
var undoing = map[string]string{"release": "reserve", "refund": "charge", "recall": "ship"}

// act is what a worker does when the sidecar inquires about a call or compensates it.
type act struct {
	Key     string `json:"idempotency_key"`
	Tool    string
	Outcome string
	Result  json.RawMessage
}

const (
	sagaRuns  = 40
	sagaKills = 6
)

// TestSagasAreUndone lets every run reserve, charge and ship. Then the run fails, is cancelled,
// follows an event that triggers compensation, or completes, while the sidecar is killed. The
// outcome of some charges is unknown, before or after they happened. In the first three cases each
// effect is compensated once, the last one first. In the last case the effects stay.
func TestSagasAreUndone(t *testing.T) {
	t.Parallel()
	s := newSidecar(t, "--pack", "testdata/saga.json", "--allow-tool", "*", "--restart-grace", "300ms")
	s.start()
	ctx := deadline(t, 6*time.Minute)
	w := &world{keys: map[string]bool{}, effects: map[string][]string{}}
	defer startWorker(ctx, t, s, pawl.WorkerConfig{ID: "clerk", Turns: 8, Prompts: map[string]pawl.TurnFunc{"*": sellTurn}})()
	tools := map[string]pawl.ToolFunc{"charged": func(_ context.Context, step *pawl.Step) (json.RawMessage, error) {
		var request act
		if err := json.Unmarshal([]byte(step.Assignment.GetPayloadJson()), &request); err != nil {
			return nil, err
		}
		return json.Marshal(map[string]any{"happened": w.hasRecorded("charge", request.Key), "result": "by key"})
	}}
	for _, tool := range []string{"reserve", "ship"} {
		tools[tool] = func(_ context.Context, step *pawl.Step) (json.RawMessage, error) {
			w.record(runOf(step), tool, step.IdempotencyKey())
			return json.RawMessage(`{"by":"` + tool + `"}`), nil
		}
	}
	tools["charge"] = func(ctx context.Context, step *pawl.Step) (json.RawMessage, error) {
		switch mood := step.Assignment.GetLease().GetAttempt(); {
		case mood == 1 && moodOf(step) < 8: // never comes to do it
			<-ctx.Done()
			return nil, ctx.Err()
		case mood == 1 && moodOf(step) < 16: // does it, and never says so
			w.record(runOf(step), "charge", step.IdempotencyKey())
			<-ctx.Done()
			return nil, ctx.Err()
		}
		w.record(runOf(step), "charge", step.IdempotencyKey())
		return json.RawMessage(`{"by":"charge"}`), nil
	}
	for undo, done := range undoing {
		tools[undo] = func(_ context.Context, step *pawl.Step) (json.RawMessage, error) {
			var request act
			if err := json.Unmarshal([]byte(step.Assignment.GetPayloadJson()), &request); err != nil || request.Tool != done {
				return nil, fmt.Errorf("%s: asked to undo %+v, %w", undo, request, err)
			}
			if request.Outcome != "ok" {
				t.Errorf("%s of %s: outcome %q", undo, request.Key, request.Outcome)
			}
			w.record(runOf(step), undo, request.Key)
			return json.RawMessage(`{}`), nil
		}
	}
	defer startWorker(ctx, t, s, pawl.WorkerConfig{ID: "hands", Steps: 16, Tools: tools})()
	ids := startSagas(ctx, t, s)
	for range sagaKills {
		seen := w.actions.Load()
		end := time.Now().Add(5 * time.Second)
		eventually(t, "things are done", func() bool { return w.actions.Load() >= seen+int64(5+rand.IntN(20)) || time.Now().After(end) })
		s.kill()
		s.start()
	}
	for n, id := range ids {
		w.verify(ctx, t, s.runs(), n, id)
	}
	t.Logf("%d runs, %d kills, %d acts, %d of them effects", sagaRuns, sagaKills, w.actions.Load(), len(w.keys))
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.check()
}

// moodOf is 0 to 31, by the run.
func moodOf(step *pawl.Step) int {
	run := runOf(step)
	return strings.IndexByte("0123456789ABCDEFGHJKMNPQRSTVWXYZ", run[len(run)-1])
}

func runOf(step *pawl.Step) string { return step.Assignment.GetLease().GetRunId() }

// sellTurn makes the three calls and ends as the run's label says.
func sellTurn(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
	view := turn.Assignment.GetTurn()
	if view.GetTerminal() {
		return pawl.Completion{}, nil
	}
	for _, tool := range []string{"reserve", "charge", "ship"} {
		if _, err := turn.Step(ctx, tool, tool, `{}`); err != nil {
			return pawl.Completion{}, err
		}
	}
	var args struct{ End string }
	if err := json.Unmarshal([]byte(view.GetVariablesJson()), &args); err != nil {
		return pawl.Completion{}, err
	}
	switch args.End {
	case "fail":
		return pawl.Completion{}, &pawl.Failure{Code: "NO", Message: "no", Final: true}
	case "cancel":
		<-ctx.Done()
		return pawl.Completion{}, ctx.Err()
	}
	return pawl.Completion{Event: args.End}, nil
}

var sagaEnds = []string{"fail", "cancel", "Regret", "Sold"}

func startSagas(ctx context.Context, t *testing.T, s *sidecar) []string {
	t.Helper()
	runs := s.runs()
	var ids []string
	for n := range sagaRuns {
		got, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.StartRunResponse, error) {
			return runs.StartRun(ctx, &pawlv1.StartRunRequest{
				Pack: "saga", Execution: pawlv1.Execution_EXECUTION_WORKERS, RequestId: fmt.Sprintf("saga-%d", n),
				VariablesJson: fmt.Sprintf(`{"end":%q}`, sagaEnds[n%len(sagaEnds)]),
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got.GetRun().GetRunId())
	}
	return ids
}

// verify waits for a run's end, cancels it if it waits for that, and compares what was done.
func (w *world) verify(ctx context.Context, t *testing.T, runs pawlv1.RunServiceClient, n int, id string) {
	t.Helper()
	end := sagaEnds[n%len(sagaEnds)]
	if end == "cancel" {
		eventually(t, "the goods are sent", func() bool {
			run, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: id})
			return err == nil && run.GetRun().GetToolCalls() >= 3
		})
		if _, err := play.Retry(ctx, func(ctx context.Context) (*pawlv1.CancelRunResponse, error) {
			return runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: id, RequestId: "c"})
		}); err != nil {
			t.Error(err)
		}
	}
	var run *pawlv1.Run
	defer func() {
		if t.Failed() {
			t.Logf("run %s, %s: %v", id, end, play.Journal(ctx, t, runs, id))
		}
	}()
	eventually(t, "the run ends", func() bool {
		got, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: id})
		run = got.GetRun()
		return err == nil && run.GetStatus() > pawlv1.RunStatus_RUN_STATUS_WAITING
	})
	want := map[string]pawlv1.RunStatus{
		"fail": pawlv1.RunStatus_RUN_STATUS_FAILED, "cancel": pawlv1.RunStatus_RUN_STATUS_CANCELLED,
		"Regret": pawlv1.RunStatus_RUN_STATUS_COMPLETED, "Sold": pawlv1.RunStatus_RUN_STATUS_COMPLETED,
	}[end]
	if run.GetStatus() != want {
		t.Errorf("run %s (%s) ended %v (%s)", id, end, run.GetStatus(), run.GetReason())
	}
	w.mu.Lock()
	did := slices.Clone(w.effects[id])
	w.mu.Unlock()
	var effects, undone []string
	for _, a := range did {
		tool, key, _ := strings.Cut(a, " ")
		if of := undoing[tool]; of != "" {
			undone = append(undone, of+" "+key)
		} else {
			effects = append(effects, a)
		}
	}
	if end == "Sold" {
		if len(undone) > 0 || len(effects) != 3 {
			t.Errorf("run %s ended well: %v", id, did)
		}
		return
	}
	slices.Reverse(undone)
	if !slices.Equal(effects, undone) || end != "cancel" && len(effects) != 3 {
		t.Errorf("run %s (%s): did %v", id, end, did)
	}
}
