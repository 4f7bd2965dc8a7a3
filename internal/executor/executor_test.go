package executor_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// desk is a pack of one conversation and a state in which it ends; engine are its settings.
func desk(engine string) string {
	return `{
  "id": "desk", "name": "Desk", "version": "1.0.0", "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {
    "work": {"id": "work", "name": "W", "version": "1.0.0", "system_template": "Work."},
    "report": {"id": "report", "name": "R", "version": "1.0.0", "system_template": "Report."}
  },
  "workflow": {"version": 2, "entry": "work", "engine": {"x_pawl": {` + engine + `}}, "states": {
    "work": {"prompt_task": "work", "on_event": {"Done": "report"}},
    "report": {"prompt_task": "report", "terminal": true}
  }}
}`
}

// rig is a sidecar with a model.
type rig struct {
	t     *testing.T
	runs  pawlv1.RunServiceClient
	model *endpoint.Server
}

// newRig starts one; scheme is the form of the endpoint.
func newRig(t *testing.T, pack, scheme string, answer func(n int) endpoint.Answer) *rig {
	t.Helper()
	r := &rig{t: t, model: endpoint.New(t, func(n int, _ endpoint.Request) endpoint.Answer { return answer(n) })}
	c := config.Default()
	c.Models, c.AllowTools, c.DrainTimeout = []string{"gpt=" + scheme + r.model.URL}, []string{"*"}, time.Second
	made := local(t, c, pack)
	r.runs = made.runs
	return r
}

func (r *rig) start() string {
	r.t.Helper()
	got, err := r.runs.StartRun(r.t.Context(), &pawlv1.StartRunRequest{Pack: "desk", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
	if err != nil {
		r.t.Fatal(err)
	}
	return got.GetRun().GetRunId()
}

var kinds = []pawlv1.RecordKind{
	pawlv1.RecordKind_RECORD_KIND_TRANSITION, pawlv1.RecordKind_RECORD_KIND_TURN_COMPLETED, pawlv1.RecordKind_RECORD_KIND_TURN_FAILED,
	pawlv1.RecordKind_RECORD_KIND_MODEL_UPDATED, pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED, pawlv1.RecordKind_RECORD_KIND_ENDED,
}

// follow gives the items of a run to take until it says that they are enough.
func (r *rig) follow(run string, take func(*pawlv1.StreamTransitionsResponse) (enough bool)) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	stream, err := r.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{RunId: run, Follow: true, Output: true, Kinds: kinds})
	if err != nil {
		r.t.Fatal(err)
	}
	for {
		item, err := stream.Recv()
		if err != nil {
			r.t.Fatalf("%v: %s", err, r.records(run))
		}
		if take(item) {
			return
		}
	}
}

func (r *rig) ended(run string) *pawlv1.Run {
	r.t.Helper()
	got, err := r.runs.WaitRun(r.t.Context(), &pawlv1.WaitRunRequest{RunId: run, Timeout: durationpb.New(time.Minute)})
	if err != nil {
		r.t.Fatal(err)
	}
	return got.GetRun()
}

func (r *rig) records(run string) string {
	r.t.Helper()
	page, err := r.runs.ListTransitions(r.t.Context(), &pawlv1.ListTransitionsRequest{RunId: run, Kinds: kinds})
	if err != nil {
		r.t.Fatal(err)
	}
	raw, err := json.Marshal(page)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(raw)
}

func doneAnswer() endpoint.Answer {
	return endpoint.Answer{Calls: []endpoint.Call{{ID: "c", Name: "leave_state", Arguments: `{"event":"Done"}`}}}
}

// TestAStateThatIsLeftPays: a model is asked, the state is left meanwhile, and what the
// call consumed until then is counted.
func TestAStateThatIsLeftPays(t *testing.T) {
	t.Parallel()
	noted := make(chan struct{})
	r := newRig(t, desk(`"timeouts": {"work": {"after_sec": 1, "event": "Done"}}`), "anthropic+", func(n int) endpoint.Answer {
		if n == 0 {
			return endpoint.Answer{Text: "Let me think", Hang: true}
		}
		select {
		case <-noted:
		case <-t.Context().Done():
		}
		return endpoint.Answer{Text: "Reported."}
	})
	run := r.start()
	r.follow(run, func(item *pawlv1.StreamTransitionsResponse) bool {
		u := item.GetRecord().GetModelUpdated().GetUsage()
		return u.GetInputTokens() == 10 && u.GetOutputTokens() == 1
	})
	close(noted)
	if got := r.ended(run); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || got.GetTokens() != 11+15 {
		t.Errorf("%v with %d tokens", got.GetStatus(), got.GetTokens())
	}
}

// TestTextThatIsNone: what an endpoint sends that is no UTF-8 is an answer all the same, and
// the connection to the sidecar stands.
func TestTextThatIsNone(t *testing.T) {
	t.Parallel()
	r := newRig(t, desk(``), "", func(n int) endpoint.Answer {
		if n == 0 {
			return doneAnswer()
		}
		return endpoint.Answer{Body: "data: {\"id\":\"1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\xff\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"}
	})
	if got := r.ended(r.start()); got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || len(r.model.Requests()) != 2 {
		t.Errorf("%v, asked %d times", got, len(r.model.Requests()))
	}
}

// TestBadEndpoints: each fault is in the record by its name, the run ends, and what was
// consumed is counted: the bound, where the endpoint was at work and did not say.
func TestBadEndpoints(t *testing.T) {
	t.Parallel()
	const bound = 62 + 4096
	for name, c := range map[string]struct {
		answer endpoint.Answer
		code   string
		asked  int
		tokens int64
	}{
		"a wrong key":      {endpoint.Answer{Status: 401}, "MODEL_UNAUTHORIZED", 1, 0},
		"no such model":    {endpoint.Answer{Status: 404, Error: "the model gpt does not exist"}, "MODEL_404", 1, 0},
		"a page":           {endpoint.Answer{Body: "<html>", Media: "text/html"}, "MODEL_NO_STREAM", 2, 0},
		"a cut stream":     {endpoint.Answer{Text: "half", Cut: true}, "STREAM_TRUNCATED", 2, 2 * bound},
		"a cut answer":     {endpoint.Answer{Text: "half", Finish: "length"}, "TRUNCATED", 2, 30},
		"it never ends":    {endpoint.Answer{Text: "and so on", Hang: true}, "MODEL_TIMEOUT", 2, 2 * bound},
		"a broken stream":  {endpoint.Answer{Body: "data: {\n\n"}, "STREAM_TRUNCATED", 2, 2 * bound},
		"without a limit":  {endpoint.Answer{Text: strings.Repeat("x", 1<<20)}, "ANSWER_TOO_LARGE", 1, bound},
		"busy for ever":    {endpoint.Answer{Status: 429, RetryAfter: "0.01"}, "MODEL_RATE_LIMITED", 2, 0},
		"many empty turns": {endpoint.Answer{Text: "no call"}, "MAX_ROUNDS", 3, 45},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pack := strings.Replace(desk(`"retry": 1, "max_artifact_bytes": 1000, "model_calls": {"timeout_sec": 60, "retry": {"max_attempts": 2, "initial_sec": 0.01}}`),
				`"system_template": "Work."`, `"system_template": "Work.", "tool_policy": {"max_rounds": 3}`, 1)
			model := endpoint.New(t, func(int, endpoint.Request) endpoint.Answer { return c.answer })
			conf := config.Default()
			conf.Models, conf.DrainTimeout, conf.ModelTimeout = []string{"gpt=" + model.URL}, time.Second, 500*time.Millisecond
			conf.Limits.ConversationBytes = 1 << 19
			r := local(t, conf, pack)
			run := r.start()
			got := r.ended(run)
			if records := r.records(run); got.GetReason() != "turn_failed" || !strings.Contains(records, c.code) {
				t.Errorf("%v %s without %s: %s", got.GetStatus(), got.GetReason(), c.code, records)
			}
			if n := len(model.Requests()); n != c.asked || got.GetTokens() != c.tokens {
				t.Errorf("asked %d times, %d tokens; want %d and %d", n, got.GetTokens(), c.asked, c.tokens)
			}
		})
	}
}

// A model that comes to no end is asked once more in each further attempt of the turn, with
// the reason: the answers before its last one are those of the record.
func TestTheLastOfTooManyAnswersIsAskedAnew(t *testing.T) {
	t.Parallel()
	pack := strings.Replace(desk(`"retry": {"max_attempts": 3, "initial_sec": 0.01}`), `"system_template": "Work."`, `"system_template": "Work.", "tool_policy": {"max_rounds": 2}`, 1)
	model := endpoint.New(t, func(int, endpoint.Request) endpoint.Answer { return endpoint.Answer{Text: "no call"} })
	conf := config.Default()
	conf.Models, conf.DrainTimeout = []string{"gpt=" + model.URL}, time.Second
	r := local(t, conf, pack)
	run := r.start()
	got := r.ended(run)
	if got.GetReason() != "turn_failed" || got.GetTokens() != 4*15 {
		t.Errorf("%v %s, %d tokens", got.GetStatus(), got.GetReason(), got.GetTokens())
	}
	if records := r.records(run); strings.Count(records, `"rejected_step"`) != 2 {
		t.Errorf("rejected otherwise than twice: %s", records)
	}
}
