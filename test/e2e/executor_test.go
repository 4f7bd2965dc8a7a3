package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

const (
	modelKey = "sk-key-that-nobody-sees"
	clerk    = "testdata/clerk.pack.yaml"
)

// endpointModels says which model is asked of an endpoint, in both forms.
var endpointModels = map[string]func(*endpoint.Server) string{
	"chat":     func(s *endpoint.Server) string { return "gpt=" + s.URL },
	"messages": func(s *endpoint.Server) string { return "gpt=anthropic+" + s.URL },
}

// keyFile holds the key.
func modelKeyFile(t *testing.T) string {
	t.Helper()
	path := t.TempDir() + "/key"
	if err := os.WriteFile(path, []byte(modelKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "gpt=" + path
}

func leaveAnswer(n int, event, note string) endpoint.Answer {
	arguments, _ := json.Marshal(map[string]any{"event": event, "artifacts": map[string]any{"note": note}})
	return endpoint.Answer{Text: "So.", Calls: []endpoint.Call{{ID: fmt.Sprintf("leave-%d", n), Name: "leave_state", Arguments: string(arguments)}}}
}

func lookAnswer(n int, at ...string) endpoint.Answer {
	a := endpoint.Answer{Text: fmt.Sprintf("Let me look, %d.", n)}
	for i, arguments := range at {
		a.Calls = append(a.Calls, endpoint.Call{ID: fmt.Sprintf("call-%d-%d", n, i), Name: "look", Arguments: arguments})
	}
	return a
}

// TestAPackRunsWithoutCode: `pawl run` alone executes a pack with a model, shows what it
// says and the states that are entered, and the key is nowhere.
func TestAPackRunsWithoutCode(t *testing.T) {
	t.Parallel()
	for form, ask := range endpointModels {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			server := endpoint.New(t, func(n int, _ endpoint.Request) endpoint.Answer {
				if n == 0 {
					return leaveAnswer(n, "Found", "a key under the mat")
				}
				return endpoint.Answer{Text: "It was under the mat."}
			})
			s := newSidecar(t)
			cmd := s.command("run", clerk, "--model", ask(server), "--model-key", modelKeyFile(t), "--input", "Where is the key?")
			var texts, errors strings.Builder
			cmd.Stdout, cmd.Stderr = &texts, &errors
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, &texts, &errors)
			}
			for _, want := range []string{"→ work (1)", "So.", "→ report (1)", "It was under the mat.", "COMPLETED"} {
				if !strings.Contains(texts.String(), want) {
					t.Errorf("no %q in %s", want, &texts)
				}
			}
			requests := server.Requests()
			if len(requests) != 2 {
				t.Fatalf("%d requests", len(requests))
			}
			if h := requests[0].Header; h.Get("Authorization") != "Bearer "+modelKey && h.Get("X-Api-Key") != modelKey {
				t.Errorf("no key in %v", h)
			}
			second, _ := json.Marshal(requests[1].Body)
			if !strings.Contains(string(second), "Report: a key under the mat") {
				t.Errorf("asked %s", second)
			}
			if strings.Contains(texts.String()+errors.String(), modelKey) {
				t.Error("the key was told")
			}
		})
	}
}

// slowTool serves the tool. Each execution is reported, and ends when it may.
type slowTool struct {
	started, proceed chan struct{}
	calls            atomic.Int64
}

func (l *slowTool) execute(ctx context.Context, s *pawl.Step) (json.RawMessage, error) {
	l.calls.Add(1)
	for _, gate := range []func() bool{
		func() bool {
			select {
			case l.started <- struct{}{}:
				return true
			case <-ctx.Done():
				return false
			}
		},
		func() bool {
			select {
			case <-l.proceed:
				return true
			case <-ctx.Done():
				return false
			}
		},
	} {
		if !gate() {
			return nil, ctx.Err()
		}
	}
	return json.RawMessage(`{"seen":"nothing"}`), nil
}

func (l *slowTool) start(ctx context.Context, t *testing.T, s *sidecar) {
	t.Helper()
	w, err := pawl.NewWorker(pawl.WorkerConfig{
		Conn: s.dial(), ID: "looker", Tools: map[string]pawl.ToolFunc{"look": l.execute}, Steps: 4, Retry: 10 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// TestKillBetweenRounds sends SIGKILL to the sidecar that executes a turn, behind each of
// its model's answers: none of them is asked for again, no tool runs twice, and the model
// sees everything that was said.
func TestKillBetweenRounds(t *testing.T) {
	t.Parallel()
	const rounds = 4
	for form, ask := range endpointModels {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			server := endpoint.New(t, func(n int, _ endpoint.Request) endpoint.Answer {
				switch {
				case n < rounds:
					return lookAnswer(n, fmt.Sprintf(`{"at": %d}`, n), fmt.Sprintf(`{"at":%d}`, n+100))
				case n == rounds:
					return leaveAnswer(n, "Lost", "nothing")
				}
				return endpoint.Answer{Text: "It is lost."}
			})
			s := newSidecar(t, "--pack", clerk, "--allow-tool", "*", "--model", ask(server))
			s.start()
			l := &slowTool{started: make(chan struct{}), proceed: make(chan struct{})}
			l.start(ctx, t, s)
			got, err := s.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "clerk", Execution: pawlv1.Execution_EXECUTION_SIDECAR, Input: textParts("Where?")})
			if err != nil {
				t.Fatal(err)
			}
			for range rounds {
				for range 2 {
					receive(ctx, t, l.started)
				}
				s.kill()
				s.start()
				for range 2 {
					send(ctx, t, l.proceed)
				}
			}
			ended, err := s.runs().WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: got.GetRun().GetRunId()})
			if err != nil || ended.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
				t.Fatalf("%v, %v", ended.GetRun(), err)
			}
			if n := len(server.Requests()); n != rounds+2 {
				t.Errorf("the model was asked %d times for %d answers", n, rounds+2)
			}
			if n := l.calls.Load(); n != 2*rounds {
				t.Errorf("the tool ran %d times for %d calls", n, 2*rounds)
			}
			last, _ := json.Marshal(server.Requests()[rounds].Body)
			for n := range rounds {
				if !strings.Contains(string(last), fmt.Sprintf("Let me look, %d.", n)) || !strings.Contains(string(last), fmt.Sprintf("call-%d-1", n)) {
					t.Errorf("round %d is not in %s", n, last)
				}
			}
			if n := ended.GetRun().GetTokens(); n != 15*(rounds+2) {
				t.Errorf("%d tokens", n)
			}
			if code := s.stop(); code != 0 {
				t.Errorf("exit code %d", code)
			}
			s.check()
		})
	}
}

func receive(ctx context.Context, t *testing.T, from <-chan struct{}) {
	t.Helper()
	select {
	case <-from:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
}

func send(ctx context.Context, t *testing.T, to chan<- struct{}) {
	t.Helper()
	select {
	case to <- struct{}{}:
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
}

func textParts(text string) []*pawlv1.Part {
	return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: text}}}
}

// TestAModelsMistakesAreToldToIt checks that the model receives the errors of its wrong calls and
// can correct them, and that no step is made.
func TestAModelsMistakesAreToldToIt(t *testing.T) {
	t.Parallel()
	mistakes := []struct {
		says endpoint.Answer
		told string
	}{
		{endpoint.Answer{Calls: []endpoint.Call{{ID: "c", Name: "find", Arguments: "{}"}}}, `there is no tool \"find\", only: look`},
		{lookAnswer(1, `{"at":`), "no JSON object"},
		{lookAnswer(2, `[1]`), "no JSON object"},
		{lookAnswer(3, `{"at":"here"}`), "at"},
		{leaveAnswer(4, "Nowhere", "x"), "one of Found, Lost"},
		{endpoint.Answer{Calls: []endpoint.Call{{ID: "c", Name: "leave_state", Arguments: `{"event":"Found","note":"beside"}`}}}, "note"},
		{endpoint.Answer{Calls: []endpoint.Call{{ID: "c", Name: "leave_state", Arguments: `{"event":"Found","artifacts":{"node":"x"}}`}}}, `one of note, not \"node\"`},
		{endpoint.Answer{Calls: []endpoint.Call{{ID: "c", Name: "leave_state", Arguments: `{"event":"Found","artifacts":{"note":7}}`}}}, "want a string"},
		{endpoint.Answer{Text: "I am done."}, "text alone does not move the run"},
		{leaveAnswer(9, "Found", "at last"), ""},
		{endpoint.Answer{Text: "Reported."}, ""},
	}
	server := endpoint.New(t, func(n int, _ endpoint.Request) endpoint.Answer { return mistakes[n].says })
	s := newSidecar(t, "--pack", clerk, "--allow-tool", "*", "--model", endpointModels["chat"](server))
	s.start()
	ctx := t.Context()
	got, err := s.runs().StartRun(ctx, &pawlv1.StartRunRequest{Pack: "clerk", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := s.runs().WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: got.GetRun().GetRunId()})
	if err != nil || ended.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Fatalf("%v, %v", ended, err)
	}
	asked := server.Requests()
	for i, m := range mistakes[:9] {
		messages, _ := asked[i+1].Body["messages"].([]any)
		last, _ := json.Marshal(messages[len(messages)-1])
		if unquoted := strings.ReplaceAll(string(last), `\\\"`, `\"`); !strings.Contains(unquoted, m.told) {
			t.Errorf("mistake %d: told %s, want %q", i, last, m.told)
		}
	}
}

// TestAnEndpointThatRefuses: a wrong key ends the run at once and by its name, a busy one, and
// one whose answer was cut short, is asked again, and no record or log has the key.
func TestAnEndpointThatRefuses(t *testing.T) {
	t.Parallel()
	server := endpoint.New(t, func(n int, _ endpoint.Request) endpoint.Answer {
		switch n {
		case 0:
			return endpoint.Answer{Status: 429, RetryAfter: "0.05", Error: "slow down " + modelKey}
		case 1:
			return endpoint.Answer{Text: "half of it", Finish: "length"}
		}
		return endpoint.Answer{Status: 401, Error: "what is " + modelKey + "?"}
	})
	s := newSidecar(t, "--pack", clerk, "--log-level", "debug", "--model", endpointModels["chat"](server), "--model-key", modelKeyFile(t))
	s.start()
	ctx := t.Context()
	runs := s.runs()
	got, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "clerk", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: got.GetRun().GetRunId()})
	if err != nil || ended.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_FAILED {
		t.Fatalf("%v, %v", ended, err)
	}
	if n := len(server.Requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
	if n := ended.GetRun().GetTokens(); n != 15 {
		t.Errorf("%d tokens; an answer that is none was paid as well", n)
	}
	page, err := runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{
		RunId: got.GetRun().GetRunId(), Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_TURN_FAILED, pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED},
	})
	if err != nil {
		t.Fatal(err)
	}
	records := fmt.Sprint(page)
	if !strings.Contains(records, "MODEL_UNAUTHORIZED") || strings.Contains(records, modelKey) {
		t.Errorf("records %s", records)
	}
	s.stop()
	if strings.Contains(s.stderr.String(), modelKey) {
		t.Errorf("the log has the key")
	}
}

// TestNoModelNoRun checks that a run does not start if no executor would execute it.
func TestNoModelNoRun(t *testing.T) {
	t.Parallel()
	s := newSidecar(t, "--pack", clerk)
	s.start()
	_, err := s.runs().StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "clerk", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
	if pawl.ReasonOf(err) != "NO_MODELS" {
		t.Errorf("%v", err)
	}
}
