package rules

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestModelCalls: the pack sets attempts, pauses and deadlines of calls of models
// (x_pawl.model_calls); the defaults apply where it sets nothing. A pause that the provider asks
// for is used up to the longest pause, and an attempt that fails with a final code is the last one.
func TestModelCalls(t *testing.T) {
	t.Parallel()
	none := int64(0)
	own := &machine.Calls{Timeout: 9 * time.Second, Retry: machine.RetryPolicy{
		MaxAttempts: 4, Initial: 2 * time.Second, Max: 5 * time.Second, Multiplier: 1500, Jitter: &none, NonRetryable: []string{"BAD"},
	}}
	for _, tt := range []struct {
		name  string
		calls *machine.Calls
		asks  []time.Duration
		code  string
		want  []time.Duration
	}{
		{"the pack's", own, []time.Duration{0, 0, 0, 0}, "BUSY", []time.Duration{2 * time.Second, 3 * time.Second, 4500 * time.Millisecond, 0}},
		{"asked for", own, []time.Duration{time.Second, 4 * time.Second, time.Hour, 0}, "BUSY", []time.Duration{2 * time.Second, 4 * time.Second, 5 * time.Second, 0}},
		{"final", own, []time.Duration{0}, "BAD", []time.Duration{0}},
		{"by default", nil, []time.Duration{time.Hour, time.Hour, 0}, "BUSY", []time.Duration{time.Minute, time.Minute, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, err := parseGraph("entry a\nstate a: Go->a\nretry attempts=9 initial=7s max=8s final=BUSY")
			if err != nil {
				t.Fatal(err)
			}
			g.ModelCalls = tt.calls
			l := newLedger(t, g)
			at, by := epoch, &machine.Assignment{Delivery: 1, At: epoch}
			apply := func(c machine.Command) {
				t.Helper()
				if _, err := l.apply(machine.Input{At: at, Principal: "app", Command: c, Semantics: machine.Current}); err != nil {
					t.Fatal(err)
				}
			}
			apply(machine.Start{RunID: "R", Execution: machine.Caller})
			apply(machine.RequestModel{TurnSeq: 1, Attempt: 1, Round: 1, Model: &machine.ModelRequest{Model: "m"}, Assigned: by})
			var got []time.Duration
			for i, asked := range tt.asks {
				apply(machine.AnswerModel{
					TurnSeq: 1, TurnAttempt: 1, Step: 1, Attempt: i + 1, Error: machine.Fault{Code: tt.code}, RetryAfter: asked, Assigned: by,
				})
				records := l.entries[len(l.entries)-1].Records
				failed := records[len(records)-1].Body.(*machine.StepResolved)
				wait := time.Duration(0)
				if failed.Next != 0 {
					wait = time.Duration(failed.NotBefore - at)
					if left := time.Duration(failed.Deadline - failed.NotBefore); left != ModelCalls(g).Timeout {
						t.Errorf("attempt %d has %s", failed.Next, left)
					}
				}
				got, at = append(got, wait), at+int64(wait)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("pauses %v, want %v", got, tt.want)
			}
			l.replay()
		})
	}
}

// TestPriceOfTheRequest: the cost of a call of a model is computed with the price at the time of
// the request, even if the operator has changed the price since.
func TestPriceOfTheRequest(t *testing.T) {
	t.Parallel()
	g, err := parseGraph("entry a\nstate a: Go->a\nbudget cost=100")
	if err != nil {
		t.Fatal(err)
	}
	l, by := newLedger(t, g), &machine.Assignment{Delivery: 1, At: epoch}
	usage := func(price *machine.Price) machine.Usage {
		return machine.Usage{InputTokens: 3, Model: "m", Price: price}
	}
	for _, c := range []machine.Command{
		machine.Start{RunID: "R", Execution: machine.Caller},
		machine.RequestModel{TurnSeq: 1, Attempt: 1, Round: 1, Model: &machine.ModelRequest{Model: "m"}, Assigned: by, Bound: usage(&machine.Price{Input: 2_000_000})},
		machine.AnswerModel{TurnSeq: 1, TurnAttempt: 1, Step: 1, Attempt: 1, Error: machine.Fault{Code: "BUSY"}, Assigned: by, Usage: usage(nil)},
		machine.AnswerModel{TurnSeq: 1, TurnAttempt: 1, Step: 1, Attempt: 2, Answer: &machine.ModelAnswer{}, Assigned: by, Usage: usage(&machine.Price{Input: 9_000_000})},
	} {
		if _, err := l.apply(machine.Input{At: epoch, Principal: "app", Command: c, Semantics: machine.Current}); err != nil {
			t.Fatalf("%T: %v", c, err)
		}
	}
	if l.state.CostMicro != 12 {
		t.Errorf("the run cost %d, want 12", l.state.CostMicro)
	}
	l.replay()
}
