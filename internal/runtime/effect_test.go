package runtime_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// refundPack has one tool, which may have one effect for each order.
var refundPack = strings.NewReplacer(`"id": "loop"`, `"id": "refunds"`, `"x_pawl": {`, `"x_pawl": {"tools": {"run_tests": {"dedupe": ["path"]}},`).Replace(loopPack)

// TestOneEffectPerBusinessKey: if many runs ask for the same effect at once, one run gets the step.
// All others receive a denial that names this step and, after the step is answered, also its answer.
func TestOneEffectPerBusinessKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", refundPack)
	const orders, contenders = 8, 6
	var first sync.Map
	var wg sync.WaitGroup
	for n := range orders * contenders {
		wg.Go(func() {
			req := startRequest(fmt.Sprintf("run-%d", n))
			req.Pack = "refunds"
			run := r.startWith(req)
			order := fmt.Sprintf(`{"path": "order-%d"}`, n%orders)
			answer, err := r.request(run.RunID, run.Turn.Token, call("run_tests", order))
			if err != nil {
				t.Error(err)
				return
			}
			if step := &answer.Steps[0]; step.Denial == nil {
				if had, twice := first.LoadOrStore(n%orders, run.RunID); twice {
					t.Errorf("order %d is %s's and %v's", n%orders, run.RunID, had)
				}
			} else if step.Denial.Code != machine.DuplicateEffect {
				t.Errorf("run %s: %+v", run.RunID, step.Denial)
			}
		})
	}
	wg.Wait()
	run, ok := first.Load(3)
	if !ok {
		t.Fatal("nobody has order 3")
	}
	resolve := func(run string, ok bool) {
		t.Helper()
		req := runtime.ResolveRequest{RunRef: ref(run, boss), Step: 1, Tool: "run_tests", Attempt: 1, OK: ok}
		if req.Result = []byte(`{"refund": "r-3"}`); !ok {
			req.Result, req.Error = nil, machine.Fault{Code: "BROKEN"}
		}
		if answer, err := r.ResolveStep(t.Context(), req); err != nil || answer.Disposition != machine.Accepted {
			t.Fatalf("%+v, %v", answer, err)
		}
	}
	ask := func(id, payload string) runtime.StepAnswer {
		t.Helper()
		req := startRequest(id)
		req.Pack = "refunds"
		run := r.startWith(req)
		answer, err := r.request(run.RunID, run.Turn.Token, call("run_tests", payload))
		if err != nil {
			t.Fatal(err)
		}
		return answer.Steps[0]
	}
	resolve(run.(string), true)
	r.restart()
	want := fmt.Sprintf(`step %s/1 had this effect and answered {"refund":"r-3"}`, run)
	if late := ask("late", `{"path": "order-3"}`); late.Denial == nil || late.Denial.Message != want {
		t.Errorf("told %+v, want %s", late.Denial, want)
	}
	other, _ := first.Load(4)
	resolve(other.(string), false)
	if free := ask("free", `{"path": "order-4"}`); free.Denial != nil || free.Step != 1 {
		t.Errorf("after a definite error: %+v", free.Denial)
	}
	if missing := ask("missing", `{"path": null}`); missing.Denial == nil {
		t.Error("a call without its key has a step")
	}
}

// TestASensitiveAnswerStaysWithItsPack: a run asks for an effect that a run of another pack has
// had. It receives the answer only if the pack of the first run declares no sensitive values,
// because the denial becomes a record of the second run, under the rules of the second pack.
func TestASensitiveAnswerStaysWithItsPack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sensitive := strings.Replace(refundPack, `"x_pawl": {`, `"x_pawl": {"sensitive": {"tools": ["run_tests"]},`, 1)
	r.register("", strings.Replace(sensitive, `"id": "refunds"`, `"id": "sensitive"`, 1))
	r.register("", refundPack)
	r.register("", strings.Replace(refundPack, `"id": "refunds"`, `"id": "others"`, 1))
	ask := func(pack, id, payload string) (run string, step runtime.StepAnswer) {
		t.Helper()
		req := startRequest(id)
		req.Pack = pack
		started := r.startWith(req)
		answer, err := r.request(started.RunID, started.Turn.Token, call("run_tests", payload))
		if err != nil {
			t.Fatal(err)
		}
		return started.RunID, answer.Steps[0]
	}
	for _, c := range []struct {
		first, second string
		told          bool
	}{
		{"sensitive", "sensitive", true}, {"sensitive", "others", false}, {"refunds", "others", true}, {"refunds", "sensitive", true},
	} {
		name := c.first + " to " + c.second
		payload := fmt.Sprintf(`{"path": %q}`, name)
		first, _ := ask(c.first, name+" 1", payload)
		if _, err := r.ResolveStep(t.Context(), runtime.ResolveRequest{
			RunRef: ref(first, boss), Step: 1, Tool: "run_tests", Attempt: 1, OK: true, Result: []byte(`"s3cret"`),
		}); err != nil {
			t.Fatal(err)
		}
		_, late := ask(c.second, name+" 2", payload)
		if late.Denial == nil || late.Denial.Code != machine.DuplicateEffect || !strings.Contains(late.Denial.Message, first+"/1") {
			t.Fatalf("%s: %+v", name, late.Denial)
		}
		if told := strings.Contains(late.Denial.Message, "s3cret"); told != c.told {
			t.Errorf("%s: told %q", name, late.Denial.Message)
		}
	}
}

// refund starts a run of refundPack.
func (r *rig) refund(id string) runtime.Answer {
	r.t.Helper()
	req := startRequest(id)
	req.Pack = "refunds"
	return r.startWith(req)
}

// ask asks for an effect under a business key.
func (r *rig) ask(run, token, key, payload string) runtime.StepAnswer {
	r.t.Helper()
	request := call("run_tests", payload)
	request.Key = key
	answer, err := r.request(run, token, request)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.Steps[0]
}

// TestARefusalIsWordedOnce: a turn is executed again and asks again for an effect that another step
// has. It receives the same denial as before, which is also the one in the transcript, although the
// other step has an answer by now.
func TestARefusalIsWordedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", refundPack)
	first, second := r.refund("first"), r.refund("second")
	if denial := r.ask(first.RunID, first.Turn.Token, "k", `{"path": "x"}`).Denial; denial != nil {
		t.Fatalf("nobody has it: %+v", denial)
	}
	told := r.ask(second.RunID, second.Turn.Token, "k", `{"path": "x"}`).Denial
	if told == nil || told.Code != machine.DuplicateEffect {
		t.Fatalf("the first run has it: %+v", told)
	}
	if _, err := r.ResolveStep(t.Context(), runtime.ResolveRequest{
		RunRef: ref(first.RunID, boss), Step: 1, Tool: "run_tests", Attempt: 1, OK: true, Result: []byte(`"done"`),
	}); err != nil {
		t.Fatal(err)
	}
	r.restart()
	turn, err := r.GetTurn(t.Context(), ref(second.RunID, everyone))
	if err != nil {
		t.Fatal(err)
	}
	if again := r.ask(second.RunID, turn.Token, "k", `{"path": "x"}`).Denial; again == nil || again.Message != told.Message {
		t.Errorf("asked again it is told %+v, first %+v", again, told)
	}
	if anew := r.ask(second.RunID, turn.Token, "another", `{"path": "x"}`).Denial; anew == nil || !strings.HasSuffix(anew.Message, `answered "done"`) {
		t.Errorf("asked for anew it is told %+v", anew)
	}
}

// TestARefusedEffectStaysRefused: a turn is executed again and asks for an effect under the same
// key. It receives the same denial as before, although no step holds the business key any more. The
// first execution may have done something else instead, and the journal has that.
func TestARefusedEffectStaysRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.register("", refundPack)
	first, second := r.refund("first"), r.refund("second")
	if had := r.ask(first.RunID, first.Turn.Token, "k", `{"path": "x"}`); had.Denial != nil {
		t.Fatalf("nobody has it: %+v", had.Denial)
	}
	told := r.ask(second.RunID, second.Turn.Token, "k", `{"path": "x"}`)
	if told.Denial == nil || told.Denial.Code != machine.DuplicateEffect {
		t.Fatalf("the first run has it: %+v", told)
	}
	if _, err := r.ResolveStep(t.Context(), runtime.ResolveRequest{
		RunRef: ref(first.RunID, boss), Step: 1, Tool: "run_tests", Attempt: 1, Error: machine.Fault{Code: "BROKEN"},
	}); err != nil {
		t.Fatal(err)
	}
	r.restart()
	turn := func(run string) string {
		t.Helper()
		got, err := r.GetTurn(t.Context(), ref(run, everyone))
		if err != nil {
			t.Fatal(err)
		}
		return got.Token
	}
	token := turn(second.RunID)
	if again := r.ask(second.RunID, token, "k", `{"path": "x"}`); again.Denial == nil || again.Denial.Message != told.Denial.Message {
		t.Errorf("asked again it is told %+v, first %+v", again, told.Denial)
	}
	if other := r.ask(second.RunID, token, "k", `{"path": "y"}`); other.Denial != nil {
		t.Errorf("another effect is refused: %+v", other.Denial)
	}
	if free := r.ask(second.RunID, token, "later", `{"path": "x"}`); free.Denial != nil {
		t.Errorf("asked for anew it is refused: %+v", free.Denial)
	}
	if late := r.ask(first.RunID, turn(first.RunID), "later", `{"path": "x"}`); late.Denial == nil {
		t.Error("two runs have it")
	}
}
