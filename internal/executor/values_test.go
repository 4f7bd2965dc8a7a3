package executor_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/server"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
	"github.com/pawl-dev/pawl/test/testkit/jsonvalues"
)

// TestValuesOfModelsCalls: the tool, the record and the next request get the arguments of a model's call
// unchanged. The same holds for the result of the tool and for a written artifact. If readers would understand
// the arguments differently, the model receives an error, and no tool gets them.
func TestValuesOfModelsCalls(t *testing.T) {
	t.Parallel()
	for form, scheme := range map[string]string{"chat": "", "messages": "anthropic+"} {
		for _, v := range jsonvalues.All {
			t.Run(form+"/"+v.Name, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				var asked []endpoint.Request
				models := endpoint.New(t, func(n int, a endpoint.Request) endpoint.Answer {
					mu.Lock()
					defer mu.Unlock()
					asked = append(asked, a)
					switch n {
					case 0:
						return endpoint.Answer{Calls: []endpoint.Call{{ID: "c0", Name: "look", Arguments: v.Text}}}
					case 1:
						note := v.Text
						if v.Refused != "" {
							note = "1"
						}
						return endpoint.Answer{Calls: []endpoint.Call{{ID: "c1", Name: "leave_state", Arguments: `{"event":"Done","artifacts":{"note":` + note + `}}`}}}
					}
					return endpoint.Answer{Text: "Reported."}
				})
				c := config.Default()
				c.Models, c.AllowTools, c.DrainTimeout = []string{"gpt=" + scheme + models.URL}, []string{"*"}, time.Second
				l, err := server.StartLocal(c, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = l.Close() })
				pack := strings.NewReplacer(`"system_template": "Work."`, `"system_template": "Work.", "tools": ["look"]`, `"workflow":`, `"tools": {"look": {"name": "look", "description": "Looks."}}, "workflow":`,
					`"prompt_task": "work",`, `"prompt_task": "work", "artifacts": {"note": {"type": "application/json"}},`).Replace(desk(``))
				if _, err := pawlv1.NewPackServiceClient(l.Conn).RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Content: []byte(pack)}); err != nil {
					t.Fatal(err)
				}
				var got []string
				w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: l.Conn, ID: "looker", Steps: 4, Retry: 10 * time.Millisecond, Tools: map[string]pawl.ToolFunc{
					"look": func(_ context.Context, s *pawl.Step) (json.RawMessage, error) {
						mu.Lock()
						defer mu.Unlock()
						got = append(got, s.Assignment.GetPayloadJson())
						return json.RawMessage(s.Assignment.GetPayloadJson()), nil
					},
				}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				go func() { ended <- w.Run(ctx) }()
				t.Cleanup(func() { cancel(); <-ended })
				r := &rig{t: t, runs: pawlv1.NewRunServiceClient(l.Conn)}
				run := r.ended(r.start())
				mu.Lock()
				defer mu.Unlock()
				if run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || len(asked) < 2 {
					t.Fatalf("%v", run)
				}
				told := resultIn(t, asked[1].Body)
				if v.Refused == "surrogate" { // half of a character becomes U+FFFD
					if len(got) != 1 || !strings.Contains(got[0], "\\ufffd") && !strings.Contains(got[0], "\uFFFD") {
						t.Errorf("the tool got %s", got)
					}
					return
				}
				if v.Refused != "" {
					if len(got) > 0 || !strings.Contains(told, v.Refused) {
						t.Errorf("the tool got %s, the model is told %s", got, told)
					}
					return
				}
				shown, err := r.runs.GetRun(t.Context(), &pawlv1.GetRunRequest{RunId: run.GetRunId(), IncludeArtifacts: true})
				if err != nil {
					t.Fatal(err)
				}
				for what, value := range map[string]string{"the tool's payload": strings.Join(got, " "), "what the model is told": told, "the artifact": shown.GetArtifacts()[0].GetValue().GetJson()} {
					if !jsonvalues.Equal(value, v.Text) {
						t.Errorf("%s is %s", what, value)
					}
				}
			})
		}
	}
}

// resultIn returns the result of the last call in a request.
func resultIn(t *testing.T, body map[string]any) string {
	t.Helper()
	messages, _ := body["messages"].([]any)
	for _, said := range slices.Backward(messages) {
		m, _ := said.(map[string]any)
		if m["role"] == "tool" {
			text, _ := m["content"].(string)
			return text
		}
		blocks, _ := m["content"].([]any)
		for _, b := range blocks {
			if block, _ := b.(map[string]any); block["type"] == "tool_result" {
				text, _ := block["content"].(string)
				return text
			}
		}
	}
	t.Errorf("no result in %v", body)
	return ""
}
