package executor_test

import (
	"encoding/json"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// withValidators is the desk with a validator on its first prompt.
func withValidators(engine, validators string) string {
	return strings.Replace(desk(engine), `"system_template": "Work."`, `"system_template": "Work.", "validators": `+validators, 1)
}

// TestValidatorsRejectAnswers: a forbidden word is neither said nor taken. The model is asked again with the reason, and does not see what
// it said. The stream has the violation.
func TestValidatorsRejectAnswers(t *testing.T) {
	t.Parallel()
	pack := withValidators(`"retry": {"max_attempts": 3, "initial_sec": 0.01}`,
		`[{"id": "no-promise", "type": "banned_words", "message": "Promise nothing", "params": {"words": ["guarantee"]}}]`)
	script := []endpoint.Answer{{Text: "We GUARANTEE it."}, doneAnswer(), {Text: "Reported."}}
	for _, scheme := range []string{"", "anthropic+"} {
		r := newRig(t, pack, scheme, func(n int) endpoint.Answer { return script[n] })
		run := r.start()
		var violation *pawlv1.Violation
		r.follow(run, func(item *pawlv1.StreamTransitionsResponse) bool {
			if failed := item.GetRecord().GetTurnFailed(); failed != nil {
				violation = failed.GetViolation()
				if failed.GetRejectedStep() != 1 || failed.GetNext() != 2 {
					t.Errorf("failed %v", failed)
				}
			}
			return item.GetRecord().GetEnded() != nil
		})
		if violation.GetId() != "no-promise" || violation.GetType() != "banned_words" || violation.GetPlace() != "answer of step 1, characters 4 to 12" ||
			violation.GetReason() != `Promise nothing: the text contains "guarantee", which is not allowed` {
			t.Errorf("violation %v; %s", violation, r.records(run))
		}
		if got := r.ended(run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
			t.Errorf("%v: %s", got, r.records(run))
		}
		again, err := json.Marshal(r.model.Requests()[1].Body)
		if err != nil || !strings.Contains(string(again), "Promise nothing") || strings.Contains(string(again), "GUARANTEE") {
			t.Errorf("asked again %s, %v", again, err)
		}
	}
}

// TestValidatorsHoldAfterTheLastAttempt: a model that says nothing else ends the run by the name of the validator, and it was asked as
// often as the turn has attempts.
func TestValidatorsHoldAfterTheLastAttempt(t *testing.T) {
	t.Parallel()
	pack := withValidators(`"retry": {"max_attempts": 3, "initial_sec": 0.01}`, `[{"type": "max_length", "params": {"max": 5}}]`)
	r := newRig(t, pack, "", func(int) endpoint.Answer { return endpoint.Answer{Text: "Too long."} })
	run := r.start()
	got := r.ended(run)
	if got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_ESCALATED || got.GetReason() != "validator:max_length" || len(r.model.Requests()) != 3 || got.GetTokens() != 3*15 {
		t.Errorf("%v %s, asked %d times, %d tokens: %s", got.GetStatus(), got.GetReason(), len(r.model.Requests()), got.GetTokens(), r.records(run))
	}
}

// TestValidatorsJudgeTheWholeTurn: what the turn has to say, or to call, is judged when it ends.
func TestValidatorsJudgeTheWholeTurn(t *testing.T) {
	t.Parallel()
	for name, validators := range map[string]string{
		"a text that is missing": `[{"type": "contains", "params": {"patterns": ["order 7"]}}]`,
		"no JSON":                `[{"type": "json_schema", "params": {"schema": {"type": "object"}}}]`,
		"a tool that is missing": `[{"type": "tools_called", "params": {"tools": ["look"]}}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pack := withValidators(`"retry": {"max_attempts": 2, "initial_sec": 0.01}`, validators)
			said := doneAnswer()
			said.Text = "Here it is."
			r := newRig(t, pack, "", func(int) endpoint.Answer { return said })
			run := r.start()
			if got := r.ended(run); !strings.HasPrefix(got.GetReason(), "validator:") || len(r.model.Requests()) != 2 {
				t.Errorf("%v %s, asked %d times: %s", got.GetStatus(), got.GetReason(), len(r.model.Requests()), r.records(run))
			}
		})
	}
}
