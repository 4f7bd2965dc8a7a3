package output

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestModelText: records of model calls and of evals have a text, those of tools have none.
func TestModelText(t *testing.T) {
	t.Parallel()
	asks := pawlv1.StepKind_STEP_KIND_MODEL
	resolved := func(s *pawlv1.StepResolved) *pawlv1.Record {
		s.Step, s.Tool, s.Kind = 1, "gpt", asks
		return &pawlv1.Record{At: timestamppb.New(time.Unix(10, 0)), Body: &pawlv1.Record_StepResolved{StepResolved: s}}
	}
	noted := func(n *pawlv1.ModelUpdated) *pawlv1.Record {
		n.Step, n.Attempt = 1, 2
		return &pawlv1.Record{Body: &pawlv1.Record_ModelUpdated{ModelUpdated: n}}
	}
	for want, r := range map[string]*pawlv1.Record{
		"": {Body: &pawlv1.Record_StepRequested{StepRequested: &pawlv1.StepRequested{Step: 1, Tool: "look"}}},
		"gpt #1 attempt 2 asked, model/1, request changed": {Body: &pawlv1.Record_StepRequested{StepRequested: &pawlv1.StepRequested{
			Step: 1, Tool: "gpt", Kind: asks, Key: "model/1", Attempt: 2, RequestChanged: true,
		}}},
		"gpt #1 attempt 1 failed (9 in, 0 out): MODEL_RATE_LIMITED slow down; attempt 2 after 1.5s": resolved(&pawlv1.StepResolved{
			Attempt: 1, Error: &pawlv1.Fault{Code: "MODEL_RATE_LIMITED", Message: "slow down"}, Next: 2,
			NotBefore: timestamppb.New(time.Unix(11, 5e8)), Usage: &pawlv1.Usage{InputTokens: 9},
		}),
		"gpt #1 attempt 2 answered (12 in, 8 of them cached, 5 out, 2 of them reasoning, $0.000040), tool_calls: calls look Let me look.": resolved(&pawlv1.StepResolved{
			Attempt: 2, Ok: true, Usage: &pawlv1.Usage{InputTokens: 12, CachedTokens: 8, OutputTokens: 5, ReasoningTokens: 2, CostMicroUsd: 40},
			Answer: &pawlv1.ModelAnswer{FinishReason: "tool_calls", Calls: []*pawlv1.ModelCall{{Name: "look"}}, Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "Let me look."}}}},
		}),
		"gpt refused: MAX_TOKENS over": {Body: &pawlv1.Record_StepRejected{StepRejected: &pawlv1.StepRejected{
			Tool: "gpt", Kind: asks, Denial: &pawlv1.Denial{Code: "MAX_TOKENS", Message: "over"},
		}}},
		"gpt #1 cancelled: ended":                                  {Body: &pawlv1.Record_StepCancelled{StepCancelled: &pawlv1.StepCancelled{Step: 1, Tool: "gpt", Kind: asks, Reason: "ended"}}},
		"#1 attempt 2 request changed; the recorded answer counts": noted(&pawlv1.ModelUpdated{RequestChanged: true}),
		"#1 attempt 2 came too late (0 in, 7 out)":                 noted(&pawlv1.ModelUpdated{Usage: &pawlv1.Usage{OutputTokens: 7}}),
		"1 of 3 evals passed; long 0.5: the text has 4 characters; dear has no score: too large": {Body: &pawlv1.Record_Evaluated{Evaluated: &pawlv1.Evaluated{Results: []*pawlv1.EvalResult{
			{Id: "ok", Score: 1, Passed: true}, {Id: "long", Score: 0.5, Explanation: "the text has 4 characters"}, {Id: "dear", Error: "too large"},
		}}}},
		"#1 attempt 2 is made as resp_1": noted(&pawlv1.ModelUpdated{ResponseId: "resp_1"}),
	} {
		if got := ModelText(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := ModelStepText(&pawlv1.Step{Step: 3, Key: "model/2", Tool: "gpt", Attempt: 1, Status: pawlv1.StepStatus_STEP_STATUS_PENDING}); got != "gpt #3, model/2, attempt 1, pending" {
		t.Error(got)
	}
}
