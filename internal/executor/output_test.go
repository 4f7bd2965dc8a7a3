package executor_test

import (
	"encoding/json"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// bill is the schema of a prompt's output. It refers to a part of itself.
const bill = `{"type":"object","properties":{"total":{"$ref":"#/$defs/price"}},"required":["total"],"additionalProperties":false,"$defs":{"price":{"type":"number","minimum":0}}}`

// outputs returns what the turns of a run put out, in order.
func (r *rig) outputs(run string) (out []*pawlv1.Part) {
	r.t.Helper()
	page, err := r.runs.ListTransitions(r.t.Context(), &pawlv1.ListTransitionsRequest{RunId: run, Kinds: kinds})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, record := range page.GetRecords() {
		out = append(out, record.GetTurnCompleted().GetOutput()...)
	}
	return out
}

// asJSON returns a value as the JSON in which it was sent.
func asJSON(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestOutputOfASchema: in a state with an event, the output is in the call that leaves the state. In a state
// without one, the output is the text, and the request has the schema in the provider's own field. If the
// output does not fit, the next request says so. The output of the turn is the JSON part alone.
func TestOutputOfASchema(t *testing.T) {
	t.Parallel()
	leaving := func(arguments string) endpoint.Answer {
		return endpoint.Answer{Text: "Leaving.", Calls: []endpoint.Call{{ID: "c", Name: "leave_state", Arguments: arguments}}}
	}
	for scheme, field := range map[string]string{"": "response_format", "anthropic+": "output_config", "responses+": "text"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			answers := []endpoint.Answer{
				leaving(`{"event":"Done"}`), leaving(`{"event":"Done","output":{"total":-1}}`), leaving(`{"event":"Done","output":{"total":1.50}}`),
				{Text: "It is 2."}, {Text: `{"total":"2"}`}, {Text: ` {"total":2.10}`},
			}
			r := newRig(t, desk(`"output_schema": {"work": `+bill+`, "report": `+bill+`}`), scheme, func(n int) endpoint.Answer {
				if n < len(answers) {
					return answers[n]
				}
				return endpoint.Answer{Text: "too often"}
			})
			run := r.start()
			if got := r.ended(run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
				t.Fatalf("%v: %s", got, r.records(run))
			}
			out := r.outputs(run)
			if len(out) != 2 || out[0].GetJson() != `{"total":1.50}` || out[1].GetJson() != `{"total":2.10}` {
				t.Errorf("put out %v", out)
			}
			asked := r.model.Requests()
			if len(asked) != len(answers) {
				t.Fatalf("asked %d times", len(asked))
			}
			for n, want := range map[int]string{1: "output: is required", 2: "does not fit", 4: "is no JSON", 5: "does not fit"} {
				if body := asJSON(t, asked[n].Body); !strings.Contains(body, want) {
					t.Errorf("request %d has no %q: %s", n, want, body)
				}
			}
			if tools := asJSON(t, asked[0].Body["tools"]); !strings.Contains(tools, `"required":["event","output"]`) || !strings.Contains(tools, `"$defs":{"price"`) || asked[0].Body[field] != nil {
				t.Errorf("a state with a way out is asked with %s, %v", tools, asked[0].Body[field])
			}
			if format := asJSON(t, asked[3].Body[field]); !strings.Contains(format, `"json_schema"`) || !strings.Contains(format, `"minimum":0`) {
				t.Errorf("a state without one is asked with %s", format)
			}
		})
	}
}

// TestOutputThatNeverFits: the rounds of a turn bound how often the model may try.
func TestOutputThatNeverFits(t *testing.T) {
	t.Parallel()
	pack := strings.Replace(desk(`"output_schema": {"work": `+bill+`}, "retry": 1`), `"system_template": "Work."`, `"system_template": "Work.", "tool_policy": {"max_rounds": 3}`, 1)
	r := newRig(t, pack, "", func(int) endpoint.Answer { return doneAnswer() })
	run := r.start()
	if got := r.ended(run); got.GetReason() != "turn_failed" || len(r.model.Requests()) != 3 || !strings.Contains(r.records(run), "MAX_ROUNDS") {
		t.Errorf("%v, asked %d times: %s", got, len(r.model.Requests()), r.records(run))
	}
}

// TestAPausedAnswer: an answer that the provider paused does not end the turn. The next request ends with what
// the model has said. Readers get the model's reasoning beside its text.
func TestAPausedAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, desk(``), "anthropic+", func(n int) endpoint.Answer {
		return []endpoint.Answer{doneAnswer(), {Text: "Searching.", Reasoning: "hm", Finish: "pause_turn"}, {Text: "Found."}}[min(n, 2)]
	})
	run, thought := r.start(), ""
	r.follow(run, func(item *pawlv1.StreamTransitionsResponse) bool {
		if chunk := item.GetOutput(); chunk.GetReasoning() {
			thought += chunk.GetText()
		}
		return item.GetRecord().GetEnded() != nil
	})
	if out := r.outputs(run); len(out) != 1 || out[0].GetText() != "Found." || thought != "hm" {
		t.Errorf("put out %v, thought %q: %s", out, thought, r.records(run))
	}
	messages, _ := r.model.Requests()[2].Body["messages"].([]any)
	if last := asJSON(t, messages[len(messages)-1]); !strings.Contains(last, "Searching.") {
		t.Errorf("told last: %s", last)
	}
}
