package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a/client"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/packs"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// boundPack has a lead with bounds and a blocklist, and a helper that could call more.
func boundPack(budget, xpawl string) string {
	return strings.NewReplacer("BUDGET", budget, "XPAWL", xpawl).Replace(`{
  "id": "team", "name": "Team", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {
    "lead": {"id": "lead", "name": "Lead", "version": "1.0.0", "system_template": "Lead.",
      "tools": ["helper", "probe", "charge"], "tool_policy": {"blocklist": ["charge"]}},
    "helper": {"id": "helper", "name": "Helper", "version": "1.0.0", "system_template": "Help.", "parameters": {"max_tokens": 10},
      "tools": ["probe", "charge", "listing"]}
  },
  "tools": {
    "probe": {"name": "probe", "description": "Probes"}, "charge": {"name": "charge", "description": "Charges"},
    "listing": {"name": "listing", "description": "Lists"}
  },
  "agents": {"entry": "lead", "members": {"lead": {"description": "Leads"}, "helper": {"description": "Helps"}}},
  "workflow": {
    "version": 2, "entry": "work", "engine": {"budget": {BUDGET}, "x_pawl": {XPAWL}},
    "states": {"work": {"prompt_task": "lead", "on_event": {"Done": "end"}}, "end": {"prompt_task": "lead", "terminal": true}}
  }
}`)
}

// bounded is a lead on one sidecar and its helper there or on another one.
type bounded struct {
	t *testing.T
	// leadTurn is the lead's turn, helper the helper's.
	leadTurn, helper pawl.TurnFunc
	// allow is the allowlist of the lead's sidecar; nil = every tool.
	allow []string

	mu    sync.Mutex
	calls []string
}

// note counts what is called for real.
func (b *bounded) note(tool string) pawl.ToolFunc {
	return func(context.Context, *pawl.Step) (json.RawMessage, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.calls = append(b.calls, tool)
		return json.RawMessage("1"), nil
	}
}

func (b *bounded) work(s *runningSidecar, prompts map[string]pawl.TurnFunc) pawlv1.RunServiceClient {
	b.t.Helper()
	conn, err := grpc.NewClient(s.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.t.Fatal(err)
	}
	tools := map[string]pawl.ToolFunc{"probe": b.note("probe"), "charge": b.note("charge"), "listing": b.note("listing")}
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: conn, ID: "w", Prompts: prompts, Tools: tools, Turns: 8, Steps: 8, Grace: time.Second})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	b.t.Cleanup(func() { cancel(); <-ended; conn.Close() })
	return pawlv1.NewRunServiceClient(conn)
}

// run runs the lead to its end.
func (b *bounded) run(namespace, pack string) *pawlv1.Run {
	t := b.t
	t.Helper()
	c := settings(t)
	c.Packs, c.AllowTools = []string{packWith(t, pack)}, []string{"*"}
	if namespace != "local" {
		remote := settings(t)
		remote.Packs, remote.HTTP, remote.AllowTools = c.Packs, "127.0.0.1:0", []string{"*"}
		s := serveToEnd(t, remote)
		b.work(s, map[string]pawl.TurnFunc{"helper": b.helper})
		c.Agents = map[string]config.Agent{"helper": {Card: cardOf(t, s.ready.HTTP, "team/helper", namespace)}}
	}
	if b.allow != nil {
		c.AllowTools = b.allow
	}
	prompts := map[string]pawl.TurnFunc{"lead": b.leadTurn}
	if namespace == "local" {
		prompts["helper"] = b.helper
	}
	runs := b.work(serveToEnd(t, c), prompts)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "team", Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: started.GetRun().GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	return ended.GetRun()
}

// delegates has the lead ask the helper so many times at once.
func delegates(times int) pawl.TurnFunc {
	return func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
		if t.Assignment.GetTurn().GetTerminal() {
			return pawl.Completion{}, nil
		}
		answers := make([]string, times)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				result, err := t.Step(ctx, fmt.Sprint("ask", i), "helper", `{"message": "go"}`)
				if answers[i] = result; err != nil {
					answers[i] = err.Error()
				}
			})
		}
		all.Wait()
		return pawl.Completion{Event: "Done", Output: text(strings.Join(answers, "\n"))}, nil
	}
}

var allNamespaces = []string{"local", "GRPC", "JSONRPC"}

// TestToolCallsOfAgents: a run that may make four tool calls makes no more through an agent,
// which would make four by itself.
func TestToolCallsOfAgents(t *testing.T) {
	t.Parallel()
	for _, where := range allNamespaces {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			b := &bounded{t: t, leadTurn: delegates(1), helper: func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
				for i := range 4 {
					if _, err := t.Step(ctx, fmt.Sprint("probe", i), "probe", "{}"); err != nil {
						return pawl.Completion{}, err
					}
				}
				return pawl.Completion{Output: text("done")}, nil
			}}
			got := b.run(where, boundPack(`"max_tool_calls": 4`, `"max_pending_steps": 1`))
			if len(b.calls) != 3 || got.GetToolCalls() != 4 || got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
				t.Errorf("%v were called, the lead counts %d and is %s (%s)", b.calls, got.GetToolCalls(), got.GetStatus(), got.GetReason())
			}
		})
	}
}

// TestTokensOfAgents: of a bound of 100 tokens two agents at once have 50 each, in a pack that
// names no cost; one that says 90 is not believed beyond that.
func TestTokensOfAgents(t *testing.T) {
	t.Parallel()
	for _, where := range allNamespaces {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			b := &bounded{t: t, leadTurn: delegates(2), helper: func(context.Context, *pawl.Turn) (pawl.Completion, error) {
				return pawl.Completion{Output: text("done"), Usage: &pawlv1.Usage{InputTokens: 80, OutputTokens: 10}}, nil
			}}
			got := b.run(where, boundPack(`"max_tool_calls": 100`, `"max_pending_steps": 2, "max_tokens": 100`))
			if got.GetTokens() != 100 || got.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
				t.Errorf("%d tokens are counted, the lead is %s (%s)", got.GetTokens(), got.GetStatus(), got.GetReason())
			}
		})
	}
}

// TestListsOfAgents: what the lead's prompt blocks and its operator does not admit no agent
// calls, wherever it is; its turn is not even shown such a tool.
func TestListsOfAgents(t *testing.T) {
	t.Parallel()
	for _, namespace := range allNamespaces {
		t.Run(namespace, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			denied, shown := map[string]string{}, []string(nil)
			b := &bounded{t: t, leadTurn: delegates(1), allow: []string{"helper", "probe", "charge"}}
			b.helper = func(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
				mu.Lock()
				defer mu.Unlock()
				for _, tool := range t.Assignment.GetTurn().GetTools() {
					shown = append(shown, tool.GetName())
				}
				for _, tool := range []string{"charge", "listing", "probe"} {
					_, err := t.Step(ctx, tool, tool, "{}")
					if failure, ok := errors.AsType[*pawl.Failure](err); ok {
						denied[tool] = failure.Code
					}
				}
				return pawl.Completion{Output: text("done")}, nil
			}
			got := b.run(namespace, boundPack(`"max_tool_calls": 100`, `"max_tokens": 100000`))
			if !slices.Equal(b.calls, []string{"probe"}) || denied["charge"] != "TOOL_BLOCKED" || denied["listing"] != "TOOL_NOT_ALLOWED" {
				t.Errorf("%v were called, %v refused; the lead is %s (%s)", b.calls, denied, got.GetStatus(), got.GetReason())
			}
			if namespace != "local" && !slices.Equal(shown, []string{"probe"}) {
				t.Errorf("the helper is shown %v", shown)
			}
		})
	}
}

// TestForeignAgentsAndLists: an agent that does not declare the extension keeps to no list, and
// is asked only where the operator names it; what it does not tell of itself it has consumed.
func TestForeignAgentsAndLists(t *testing.T) {
	t.Parallel()
	blocked := boundPack(`"max_tool_calls": 4`, `"max_pending_steps": 1, "max_tokens": 100`)
	for name, c := range map[string]struct {
		pack  string
		allow []string
		usage string
		code  string
		// sent, tokens and calls are what is sent to the agent, and what the run has then.
		sent, calls int
		tokens      int64
	}{
		"blocked":             {blocked, []string{"*"}, `{}`, "AGENT_UNBOUND", 0, 1, 0},
		"named":               {blocked, []string{"*", "helper"}, `{}`, "", 1, 4, 100},
		"no list":             {strings.Replace(blocked, `"charge"]}},`, `]}},`, 1), []string{"*"}, `{}`, "", 1, 4, 100},
		"tells tokens":        {blocked, []string{"*", "helper"}, `{"usage": {"input_tokens": 7, "output_tokens": 1}}`, "", 1, 4, 8},
		"tells calls":         {blocked, []string{"*", "helper"}, `{"usage": {"tool_calls": 2}}`, "", 1, 3, 100},
		"tells too many":      {blocked, []string{"*", "helper"}, `{"usage": {"input_tokens": 1, "output_tokens": 1, "tool_calls": 4}}`, "LEASE_EXCEEDED", 1, 4, 2},
		"tells half":          {blocked, []string{"*", "helper"}, `{"usage": {"output_tokens": 9, "tool_calls": 0}}`, "", 1, 1, 100},
		"tells all, which is": {blocked, []string{"*", "helper"}, `{"usage": {"input_tokens": 0, "output_tokens": 0, "tool_calls": 0, "cost_micro_usd": 0}}`, "", 1, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRogue(t, false)
			done := strings.TrimSuffix(task("COMPLETED"), "}") + fmt.Sprintf(`,"metadata":{%q:%s}}`, protocol.DelegationURI, c.usage)
			g.rpc = func(w http.ResponseWriter, _ *http.Request, method string) { result(w, method, done) }
			d := newDelegator(t, client.Remote{Card: g.URL + "/card"}, waitLimit, c.allow...)
			if _, err := d.RegisterPack(d.ctx, packs.RegisterRequest{Call: adminCall, Document: []byte(strings.Replace(c.pack, `"1.0.0",
  "template`, `"2.0.0",
  "template`, 1))}); err != nil {
				t.Fatal(err)
			}
			got := d.delegate(`{"message":"go"}`)
			if got.OK != (c.code == "") || got.Error.Code != c.code {
				t.Errorf("the step ended with %v, %s: %s", got.OK, got.Error.Code, got.Error.Message)
			}
			if n := g.count("SendMessage"); n != c.sent {
				t.Errorf("%d messages were sent, want %d", n, c.sent)
			}
			view, err := d.GetRun(d.ctx, query.GetRunRequest{RunRef: runtime.RunRef{Call: adminCall, RunID: d.run}})
			if err != nil {
				t.Fatal(err)
			}
			if s := view.State; s.ToolCalls != c.calls || s.Tokens != c.tokens {
				t.Errorf("%d calls and %d tokens are counted, want %d and %d", s.ToolCalls, s.Tokens, c.calls, c.tokens)
			}
		})
	}
}
