package executor_test

import (
	"fmt"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// usageAnswer returns an answer in the format of the scheme. usage is the JSON of its usage; if it is empty,
// the endpoint reports none.
func usageAnswer(scheme, usage string) endpoint.Answer {
	if scheme == "" {
		if usage == "" {
			usage = "null"
		}
		return endpoint.Answer{Body: `data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"x"}}]}` + "\n\n" +
			`data: {"id":"c","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":` + usage + "}\n\ndata: [DONE]\n\n"}
	}
	if usage == "" {
		usage = "{}"
	}
	return endpoint.Answer{Body: `data: {"type":"message_start","message":{"id":"m","model":"m","usage":` + usage + "}}\n\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"x"}}` + "\n\n" +
		`data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":` + usage + "}\n\ndata: {\"type\":\"message_stop\"}\n\n"}
}

// TestTheBoundIsSent: the request to the endpoint has the reserved bound, under the name that the endpoint
// accepts. Usage beyond the bound is settled in full and ends the run. If the endpoint does not report its
// usage, the bound is settled. The model never leaves the state, so only a bound ends the run.
func TestTheBoundIsSent(t *testing.T) {
	t.Parallel()
	const chat, messages = "", "anthropic+"
	budget := `"max_tokens": %d`
	for _, c := range []struct {
		name, scheme, engine, parameters, usage string
		// sent is the bound in the request, in the field that limit names; nil = the request has none.
		limit     string
		sent      any
		asked     int
		tokens    int64
		estimated int64
	}{
		{"no parameter", chat, fmt.Sprintf(budget, 9000), "", `{"prompt_tokens":30,"completion_tokens":5000}`, "max_tokens", 4096.0, 1, 5030, 0},
		{"no parameter", messages, fmt.Sprintf(budget, 9000), "", `{"input_tokens":30,"output_tokens":5000}`, "max_tokens", 8192.0, 1, 5030, 0},
		{"a parameter", chat, fmt.Sprintf(budget, 300), `"max_tokens": 100`, `{"prompt_tokens":130,"completion_tokens":100}`, "max_tokens", 100.0, 1, 230, 0},
		{"a parameter", messages, fmt.Sprintf(budget, 300), `"max_tokens": 100`, `{"input_tokens":130,"output_tokens":100}`, "max_tokens", 100.0, 1, 230, 0},
		{"a parameter as a double", chat, fmt.Sprintf(budget, 300), `"max_tokens": 1e2`, `{"prompt_tokens":130,"completion_tokens":100}`, "max_tokens", 100.0, 1, 230, 0},
		{"a budget of cost", chat, `"max_cost_usd": 0.006, "prices": {"gpt": {"input": 0, "output": 1}}`, "", `{"prompt_tokens":1,"completion_tokens":4000}`, "max_tokens", 4096.0, 1, 4001, 0},
		{"more than the bound", chat, fmt.Sprintf(budget, 5000), "", `{"prompt_tokens":30,"completion_tokens":60000}`, "max_tokens", 4096.0, 1, 60030, 0},
		{"more than the bound", messages, fmt.Sprintf(budget, 9000), "", `{"input_tokens":30,"output_tokens":60000}`, "max_tokens", 8192.0, 1, 60030, 0},
		{"no usage", chat, fmt.Sprintf(budget, 9000), "", "", "max_tokens", 4096.0, 2, 2*4096 + 62 + 77, 2*4096 + 62 + 77},
		{"no usage", messages, fmt.Sprintf(budget, 17000), "", "", "max_tokens", 8192.0, 2, 2*8192 + 62 + 77, 2*8192 + 62 + 77},
		{"what was written is not told", chat, fmt.Sprintf(budget, 5000), "", `{"prompt_tokens":50}`, "max_tokens", 4096.0, 1, 50 + 4096, 50 + 4096},
		{"what was written is not told", messages, fmt.Sprintf(budget, 9000), "", `{"input_tokens":50}`, "max_tokens", 8192.0, 1, 50 + 8192, 50 + 8192},
		{"what was read is not told", chat, fmt.Sprintf(budget, 5000), "", `{"completion_tokens":1000}`, "max_tokens", 4096.0, 1, 62 + 1000, 62 + 1000},
		{"zeros", chat, fmt.Sprintf(budget, 5000), "", `{"prompt_tokens":0,"completion_tokens":0}`, "max_tokens", 4096.0, 1, 62 + 4096, 62 + 4096},
		{"a budget that is nearly used up", chat, fmt.Sprintf(budget, 4000), "", "", "max_tokens", nil, 0, 0, 0},
		{"a budget that is nearly used up", messages, fmt.Sprintf(budget, 8000), "", "", "max_tokens", nil, 0, 0, 0},
		{"no budget", chat, "", "", `{"prompt_tokens":30,"completion_tokens":5}`, "max_tokens", nil, 3, 105, 0},
		{"no budget", messages, "", "", `{"input_tokens":30,"output_tokens":5}`, "max_tokens", 8192.0, 3, 105, 0},
		{"no budget, a parameter", chat, "", `"max_tokens": 100`, `{"prompt_tokens":30,"completion_tokens":5}`, "max_tokens", 100.0, 3, 105, 0},
	} {
		t.Run(c.name+" "+c.scheme, func(t *testing.T) {
			t.Parallel()
			policy := `"system_template": "Work.", "tool_policy": {"max_rounds": 3}, "parameters": {` + c.parameters + `}`
			engine := strings.TrimSuffix(`"retry": 1, `+c.engine, ", ")
			r := newRig(t, strings.Replace(desk(engine), `"system_template": "Work."`, policy, 1), c.scheme, func(int) endpoint.Answer { return usageAnswer(c.scheme, c.usage) })
			run := r.ended(r.start())
			want := pawlv1.RunStatus_RUN_STATUS_BUDGET_EXHAUSTED
			if c.engine == "" {
				want = pawlv1.RunStatus_RUN_STATUS_ESCALATED
			}
			asked := r.model.Requests()
			if run.GetStatus() != want || len(asked) != c.asked || run.GetTokens() != c.tokens || run.GetEstimatedTokens() != c.estimated {
				t.Errorf("%v (%s) after %d requests with %d tokens, %d of them estimated; want %v, %d, %d, %d: %s", run.GetStatus(), run.GetReason(),
					len(asked), run.GetTokens(), run.GetEstimatedTokens(), want, c.asked, c.tokens, c.estimated, r.records(run.GetRunId()))
			}
			for _, a := range asked {
				for _, name := range []string{"max_tokens", "max_completion_tokens"} {
					sent := c.sent
					if name != c.limit {
						sent = nil
					}
					if a.Body[name] != sent {
						t.Errorf("%s is %v, want %v", name, a.Body[name], sent)
					}
				}
			}
		})
	}
}

// TestANewerNameIsLearnt: if an endpoint asks for the newer name of the bound, the executor sends the bound
// under this name, and does so at once from then on. Any other refusal fails the turn.
func TestANewerNameIsLearnt(t *testing.T) {
	t.Parallel()
	refuse := endpoint.Answer{Status: 400, Error: "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}
	r := newRig(t, desk(`"max_tokens": 5000`), "", func(n int) endpoint.Answer {
		return []endpoint.Answer{refuse, doneAnswer(), {Text: "The end."}}[min(n, 2)]
	})
	if run := r.ended(r.start()); run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || run.GetTokens() != 30 {
		t.Errorf("%v with %d tokens", run.GetStatus(), run.GetTokens())
	}
	var names []string
	for _, a := range r.model.Requests() {
		for _, name := range []string{"max_tokens", "max_completion_tokens"} {
			if a.Body[name] != nil {
				names = append(names, name)
			}
		}
	}
	if got := strings.Join(names, " "); got != "max_tokens max_completion_tokens max_completion_tokens" {
		t.Errorf("sent %s", got)
	}
	r = newRig(t, desk(`"retry": 1, "max_tokens": 5000`), "", func(int) endpoint.Answer {
		return endpoint.Answer{Status: 400, Error: "max_tokens is too large: this model has at most 1000"}
	})
	if run := r.ended(r.start()); run.GetReason() != "turn_failed" || len(r.model.Requests()) != 1 || run.GetTokens() != 0 {
		t.Errorf("%v with %d tokens after %d requests", run.GetStatus(), run.GetTokens(), len(r.model.Requests()))
	}
}
