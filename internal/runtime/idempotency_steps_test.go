package runtime_test

import (
	"context"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// asked is a run whose caller requested steps under an id and did not read the answer.
type asked struct {
	*rig
	run, token string
	first      runtime.Answer
	// newToken says that the run has a new token, whose requests are counted from 1.
	newToken bool
}

func (r *asked) again() (runtime.Answer, error) {
	return r.RequestSteps(context.Background(), runtime.StepsRequest{
		TurnCall: runtime.TurnCall{RunRef: ref(r.run, everyone), TurnToken: r.token, ID: "once"},
		Requests: []machine.StepRequest{call("write_file", `{}`), call("write_file", `{"n": 2}`)},
	})
}

// do applies a command, which must be accepted.
func (r *asked) do(c machine.Command) {
	r.t.Helper()
	if _, err := r.Apply(context.Background(), runtime.Request{RunRef: ref(r.run, everyone), Command: c}); err != nil {
		r.t.Fatal(err)
	}
}

// fresh takes the turn under a new token.
func (r *asked) fresh() runtime.TurnView {
	r.t.Helper()
	view, err := r.GetTurn(context.Background(), ref(r.run, everyone))
	if err != nil {
		r.t.Fatal(err)
	}
	return view
}

// TestARepeatedRequestGivesOutNothingOld: a caller that repeats RequestStep under its id receives the same
// steps, with their present status. The repeat does not give out a call that a new request would not give out.
func TestARepeatedRequestGivesOutNothingOld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held  bool
		then  func(*asked)
		want  machine.StepStatus
		error string
	}{
		"nothing happened":        {then: func(*asked) {}, want: machine.StepStatusPending},
		"the run was cancelled":   {then: func(r *asked) { r.do(machine.Cancel{}) }, want: machine.StepStatusCancelled},
		"the run was stopped":     {then: func(r *asked) { r.do(machine.Stop{}) }, want: machine.StepStatusError},
		"a person said otherwise": {then: func(r *asked) { r.do(machine.Steer{Text: "no", When: machine.SteerNow}) }, want: machine.StepStatusError},
		"the run was paused":      {then: func(r *asked) { r.do(machine.Pause{}) }, error: "PAUSED"},
		"paused and resumed":      {then: func(r *asked) { r.do(machine.Pause{}); r.do(machine.Resume{}) }, want: machine.StepStatusPending},
		"the steps were answered": {then: func(r *asked) {
			r.answer(r.run, r.token, 1, "write_file", `1`)
			r.answer(r.run, r.token, 2, "write_file", `2`)
		}, want: machine.StepStatusOK},
		"another has the turn":     {then: func(r *asked) { r.fresh() }, error: "TURN_TOKEN_STALE"},
		"the turn failed":          {then: func(r *asked) { r.failed() }, error: "TURN_TOKEN_STALE"},
		"the visit was left":       {then: func(r *asked) { r.emit(r.run, "Again", "", r.fresh().Token) }, want: machine.StepStatusCancelled},
		"the sidecar forgot":       {then: func(r *asked) { r.restart() }, error: "TURN_TOKEN_STALE"},
		"and gave a new token":     {then: func(r *asked) { r.restart(); r.token, r.newToken = r.fresh().Token, true }, want: machine.StepStatusPending},
		"they are held":            {held: true, then: func(*asked) {}, want: machine.StepStatusPending},
		"they were denied":         {held: true, then: func(r *asked) { r.decide(machine.Refused) }, want: machine.StepStatusError},
		"approved, then cancelled": {held: true, then: func(r *asked) { r.decide(machine.Approved); r.do(machine.Cancel{}) }, want: machine.StepStatusCancelled},
		"approved":                 {held: true, then: func(r *asked) { r.decide(machine.Approved) }, want: machine.StepStatusPending},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := askedOnce(t, c.held)
			c.then(r)
			r.repeats(c.want, c.error, c.held && name == "they are held")
		})
	}
}

func askedOnce(t *testing.T, held bool) *asked {
	t.Helper()
	r := &asked{rig: newRig(t)}
	if held {
		r.register("", strings.NewReplacer(`"version": "1.0.0",`, `"version": "2.0.0",`, `"x_pawl": {`,
			`"x_pawl": {"tools": {"write_file": {"approve": "always"}},`).Replace(loopPack))
	}
	start := r.start("s")
	r.run, r.token = start.RunID, start.Turn.Token
	var err error
	if r.first, err = r.again(); err != nil {
		t.Fatal(err)
	}
	return r
}

// repeats makes the first request again and checks its answer.
func (r *asked) repeats(want machine.StepStatus, reason string, held bool) {
	r.t.Helper()
	before, commits := r.view(r.run).State, r.store.Commits()
	got, err := r.again()
	if reason != "" {
		wantReason(r.t, err, reason)
		return
	}
	if err != nil || !got.Duplicate || got.State.Status != before.Status || got.State.Seq != before.Seq || r.store.Commits() != commits {
		r.t.Fatalf("%+v, %v", got, err)
	}
	for i, step := range got.Steps {
		if step.Step != r.first.Steps[i].Step || step.Key != r.first.Steps[i].Key || step.Replayed || step.Status != want || step.Held != held {
			r.t.Errorf("step %+v, want status %d", step, want)
		}
		if want == machine.StepStatusOK && string(step.Result) == "" {
			r.t.Errorf("the answer is not told: %+v", step)
		}
	}
	if r.newToken || want != machine.StepStatusPending {
		return
	}
	if next, err := r.request(r.run, r.token, call("write_file", `{"n": 3}`)); err != nil || next.Steps[0].Key != "3" {
		r.t.Errorf("the repeat was counted: %+v, %v", next.Steps, err)
	}
}

func (r *asked) decide(v machine.Verdict) {
	r.t.Helper()
	for _, step := range r.view(r.run).State.Steps {
		r.do(machine.DecideStep{Step: step.Step, Digest: step.Approval.Digest, Verdict: v})
	}
}

// failed fails the attempt that made the request.
func (r *asked) failed() {
	r.t.Helper()
	_, err := r.FailTurn(context.Background(), runtime.FailRequest{
		TurnCall: runtime.TurnCall{RunRef: ref(r.run, everyone), TurnToken: r.token}, Error: machine.Fault{Code: "X"}, Retryable: true,
	})
	if err != nil {
		r.t.Fatal(err)
	}
}
