package approval

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

func approvedStep(payload string) (*machine.State, *machine.ToolStep) {
	s := &machine.State{RunID: "R", Digest: "sha256:feed"}
	hash := validate.PayloadHash([]byte(payload))
	return s, &machine.ToolStep{Step: 3, Tool: "refund", Status: machine.StepStatusPending, Attempt: 1, PayloadHash: hash, Approval: &machine.StepApproval{
		Digest: machine.CallDigest("refund", s.Digest, s.RunID, 3, hash), Verdict: machine.Approved, By: "ann", At: 1, Seq: 9,
	}}
}

// TestVerify: Verify accepts the approved payload, even in another spelling of the same JSON, and nothing
// else.
func TestVerify(t *testing.T) {
	t.Parallel()
	for payload, ok := range map[string]bool{
		`{"amount":5,"to":"a"}`:             true,
		`{ "to": "a", "amount": 5 }`:        true,
		`{"amount":50,"to":"a"}`:            false,
		`{"amount":5,"to":"A"}`:             false,
		`{"amount":5.0,"to":"a"}`:           false,
		`{"amount":5,"to":"a","x":null}`:    false,
		`{"amount":9,"amount":5,"to":"a"}`:  false,
		`{"amount":5,"to":"a"}{"amount":9}`: false,
		`[{"amount":5,"to":"a"}]`:           false,
		``:                                  false,
	} {
		s, step := approvedStep(`{"amount":5,"to":"a"}`)
		err := Verify(s, step, []byte(payload), 10)
		if _, mismatch := errors.AsType[*Mismatch](err); (err == nil) != ok || !ok && !mismatch {
			t.Errorf("%s: %v", payload, err)
		}
	}
	s, step := approvedStep(`{}`)
	for name, change := range map[string]func(){
		"another tool":  func() { step.Tool = "pay" },
		"another step":  func() { step.Step = 4 },
		"another run":   func() { s.RunID = "Q" },
		"another pack":  func() { s.Digest = "sha256:beef" },
		"held":          func() { step.Approval.Held = true },
		"never decided": func() { step.Approval.Verdict = 0 },
		"denied":        func() { step.Approval.Verdict = machine.Refused },
	} {
		s, step = approvedStep(`{}`)
		change()
		err := Verify(s, step, []byte(`{}`), 10)
		c, ok := Refusal(step, err).(machine.ResolveStep)
		if !ok || c.OK || !c.Final || c.Error.Code != MismatchCode || c.Step != step.Step {
			t.Errorf("%s: %v, %+v", name, err, c)
		}
	}
	s, step = approvedStep(`{}`)
	step.Approval.Expires = 10
	if err := Verify(s, step, []byte(`{}`), 9); err != nil {
		t.Error(err)
	}
	err := Verify(s, step, []byte(`{}`), 10)
	if c, ok := Refusal(step, err).(machine.DecideStep); !ok || c.Verdict != machine.Expired || c.Digest != step.Approval.Digest {
		t.Errorf("lapsed: %v, %+v", err, c)
	}
	step.Approval = nil
	if err := Verify(s, step, []byte(`anything`), 99); err != nil {
		t.Error("a call that nobody has to approve is held up")
	}
}

// TestWithhold: an executor that makes its own calls gets only approved calls that have not changed, in each
// kind of answer. A call that is held, answered or being reconciled, or that needs no approval, is not
// checked.
func TestWithhold(t *testing.T) {
	t.Parallel()
	const approved, other = `{"amount":5}`, `{"amount":50}`
	for name, c := range map[string]struct {
		payload string
		change  func(*machine.ToolStep)
		taken   bool
	}{
		"as approved":      {approved, func(*machine.ToolStep) {}, false},
		"changed":          {other, func(*machine.ToolStep) {}, true},
		"held":             {other, func(p *machine.ToolStep) { p.Approval.Held = true }, false},
		"answered":         {other, func(p *machine.ToolStep) { p.Status = machine.StepStatusOK }, false},
		"asked about":      {other, func(p *machine.ToolStep) { p.Inquiry = 4 }, false},
		"for nobody":       {other, func(p *machine.ToolStep) { p.Approval = nil }, false},
		"approval over":    {approved, func(p *machine.ToolStep) { p.Approval.Expires = 1 }, false},
		"over and changed": {other, func(p *machine.ToolStep) { p.Approval.Expires = 1 }, true},
	} {
		s, step := approvedStep(approved)
		c.change(step)
		s.Steps = []machine.ToolStep{*step}
		refusal, _ := WithholdChanged(s, []history.StepView{{ToolStep: *step, Payload: []byte(c.payload)}}).(machine.ResolveStep)
		if taken := refusal.Error.Code == MismatchCode && refusal.Step == 3; taken != c.taken {
			t.Errorf("%s: %+v", name, refusal)
		}
		asked := machine.RequestSteps{Requests: []machine.StepRequest{{Tool: "refund", Payload: []byte(c.payload)}}}
		for _, answer := range []history.StepAnswer{
			{StepOutcome: machine.StepOutcome{Step: 3}}, {StepOutcome: machine.StepOutcome{Step: 3, PayloadSeq: 9}, Payload: []byte(c.payload)},
		} {
			answers := []history.StepAnswer{answer}
			Withhold(s, asked, answers)
			if taken := answers[0].Denial != nil && answers[0].Denial.Code == MismatchCode && answers[0].Step == 0; taken != c.taken {
				t.Errorf("%s: %+v", name, answers[0])
			}
		}
	}
}

// FuzzApproved: Verify accepts each strict JSON payload that was approved. Strict JSON has no equal keys, so
// readers that keep the first of them and readers that keep the last understand it alike.
func FuzzApproved(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `[{"a":1},{"a":1}]`, `{"a":1}`, `1`, `{"\u0061":1,"a":2}`, `{`, `[}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		if !strictjson.Valid(payload) {
			return
		}
		s, step := approvedStep(string(payload))
		if err := Verify(s, step, payload, 1); err != nil {
			t.Fatal(err)
		}
	})
}
