package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// crewPack has a lead that asks a helper, which asks a scout, and the lead's bounds.
func crewPack(xpawl string) string {
	prompt := func(name, tools string) string {
		return fmt.Sprintf(`%q: {"id": %[1]q, "name": %[1]q, "version": "1.0.0", "system_template": "I am the %[1]s.", "tools": [%s], "parameters": {"max_tokens": 200}}`, name, tools)
	}
	return `{
  "id": "crew", "name": "Crew", "version": "1.0.0", "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {` + strings.Join([]string{prompt("lead", `"helper"`), prompt("helper", `"scout"`), prompt("scout", ""), prompt("last", "")}, ", ") + `},
  "agents": {"entry": "helper", "members": {"helper": {"description": "Helps"}, "scout": {"description": "Looks"}}},
  "workflow": {"version": 2, "entry": "work", "engine": {"x_pawl": {` + xpawl + `}},
    "states": {"work": {"prompt_task": "lead", "on_event": {"Done": "end"}}, "end": {"prompt_task": "last", "terminal": true}}}
}`
}

// modelSidecar is a sidecar that asks a model by script, under accounts of tokens.
type modelSidecar struct {
	t       *testing.T
	config  config.Config
	runs    pawlv1.RunServiceClient
	control pawlv1.ControlServiceClient
	server  *runningSidecar
	// answerRequest answers the n-th request of an agent, counted from 0.
	answerRequest func(who string, n int) endpoint.Answer

	mu       sync.Mutex
	changed  *sync.Cond
	requests map[string]int
}

// calls is an answer that asks an agent.
func calls(agent string) endpoint.Answer {
	return endpoint.Answer{Calls: []endpoint.Call{{ID: "c", Name: agent, Arguments: `{"message": "go"}`}}}
}

func leaveAnswer() endpoint.Answer {
	return endpoint.Answer{Calls: []endpoint.Call{{ID: "c", Name: "leave_state", Arguments: `{"event": "Done"}`}}}
}

func newCrew(t *testing.T, limit int64, xpawl string, says func(agent string, n int) endpoint.Answer) *modelSidecar {
	t.Helper()
	c := &modelSidecar{t: t, config: settings(t), answerRequest: says, requests: map[string]int{}}
	c.changed = sync.NewCond(&c.mu)
	model := endpoint.New(t, func(_ int, asked endpoint.Request) endpoint.Answer {
		said, _ := json.Marshal(asked.Body["messages"])
		for _, agent := range []string{"lead", "helper", "scout"} {
			if strings.Contains(string(said), "I am the "+agent+".") {
				return c.answerRequest(agent, c.next(agent))
			}
		}
		return endpoint.Answer{Text: "Bye."}
	})
	c.config.Packs, c.config.AllowTools = []string{packWith(t, crewPack(xpawl))}, []string{"*"}
	c.config.Models, c.config.DrainTimeout = []string{"gpt=" + model.URL}, 10*time.Second
	c.config.Budgets = writeFile(t, "budgets.yaml", fmt.Sprintf("accounts:\n- {label: tenant, window: ever, max_tokens: %d}\n", limit))
	return c
}

func (c *modelSidecar) next(who string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[who]++
	c.changed.Broadcast()
	return c.requests[who] - 1
}

// await returns when the model was asked so many times for an agent.
func (c *modelSidecar) await(who string, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.requests[who] < times {
		c.changed.Wait()
	}
}

func (c *modelSidecar) serve() {
	c.server = serve(c.t, c.config)
	conn := dial(c.t, c.server.ready.GRPC)
	c.runs, c.control = pawlv1.NewRunServiceClient(conn), pawlv1.NewControlServiceClient(conn)
}

func (c *modelSidecar) stop() {
	c.t.Helper()
	c.server.stop()
	if err := <-c.server.ended; err != nil {
		c.t.Errorf("the sidecar ended with %v", err)
	}
}

func (c *modelSidecar) start() string {
	c.t.Helper()
	got, err := c.runs.StartRun(c.t.Context(), &pawlv1.StartRunRequest{
		Pack: "crew", Execution: pawlv1.Execution_EXECUTION_SIDECAR, Labels: map[string]string{"tenant": "acme"},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return got.GetRun().GetRunId()
}

func (c *modelSidecar) wait(run string) *pawlv1.Run {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	got, err := c.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run})
	if err != nil {
		c.t.Fatal(err)
	}
	return got.GetRun()
}

// all returns all runs.
func (c *modelSidecar) all() []*pawlv1.Run {
	c.t.Helper()
	list, err := c.runs.ListRuns(c.t.Context(), &pawlv1.ListRunsRequest{PageSize: 100})
	if err != nil {
		c.t.Fatal(err)
	}
	return list.GetRuns()
}

// consumed returns what the calls of models consumed in all runs, each call once.
func (c *modelSidecar) consumed() (tokens int64) {
	c.t.Helper()
	for _, run := range c.all() {
		list, err := c.runs.ListTransitions(c.t.Context(), &pawlv1.ListTransitionsRequest{RunId: run.GetRunId(), PageSize: 1000, Kinds: []pawlv1.RecordKind{
			pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED, pawlv1.RecordKind_RECORD_KIND_MODEL_UPDATED,
		}})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, r := range list.GetRecords() {
			usage := r.GetModelUpdated().GetUsage()
			if b := r.GetStepResolved(); b.GetKind() == pawlv1.StepKind_STEP_KIND_MODEL {
				usage = b.GetUsage()
			}
			tokens += usage.GetInputTokens() + usage.GetOutputTokens()
		}
	}
	return tokens
}

// account returns the amounts of the tenant's account.
func (c *modelSidecar) account() (settled, held int64) {
	c.t.Helper()
	got, err := c.control.ListBudgets(c.t.Context(), &pawlv1.ListBudgetsRequest{NamePrefix: "tenant=acme/"})
	if err != nil || len(got.GetAccounts()) != 1 {
		c.t.Fatalf("accounts %v, %v", got, err)
	}
	return got.GetAccounts()[0].GetSettledTokens(), got.GetAccounts()[0].GetReservedTokens()
}

// addsUp checks that all runs have ended, that nothing is held, and that the settled amount is what
// was consumed. After the sidecar has stopped, a check of the store must agree.
func (c *modelSidecar) addsUp(least int64) {
	c.t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		settled, held := c.account()
		ended := held == 0
		for _, run := range c.all() {
			ended = ended && run.GetStatus() >= pawlv1.RunStatus_RUN_STATUS_COMPLETED
		}
		consumed := c.consumed()
		if ended && settled == consumed && settled >= least {
			break
		}
		if time.Now().After(until) {
			c.t.Errorf("the account has %d settled and %d held, its runs consumed %d, want at least %d: %v", settled, held, consumed, least, c.all())
			break
		}
	}
	c.stop()
	if _, err := Check(context.Background(), dataOf(c.config)); err != nil {
		c.t.Errorf("check: %v", err)
	}
}

// TestAccountsHoldAgents: runs of agents have no labels and, in a pack without a budget, no lease.
// They can only reserve what the account of the run that started them holds.
func TestAccountsHoldAgents(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 8000, "", func(who string, _ int) endpoint.Answer {
		if who == "lead" {
			return calls("helper")
		}
		return endpoint.Answer{Text: "Helped.", Read: 100, Written: 100}
	})
	c.serve()
	ended := c.wait(c.start())
	if want := "account_exhausted:tenant=acme/ever"; ended.GetReason() != want {
		t.Errorf("the lead is %s (%s), want %s", ended.GetStatus(), ended.GetReason(), want)
	}
	refused := false
	for _, run := range c.all() {
		refused = refused || run.GetParent() != nil && run.GetReason() == "account_exhausted:tenant=acme/ever"
	}
	if settled, _ := c.account(); settled > 8000 || !refused {
		t.Errorf("%d tokens are settled of 8000; an agent was refused: %v", settled, refused)
	}
	c.addsUp(5000)
}

// TestAccountsHaveCancelledAgents: what runs of agents, and of their agents, consumed until they
// were cancelled stays counted.
func TestAccountsHaveCancelledAgents(t *testing.T) {
	t.Parallel()
	for name, xpawl := range map[string]string{"without a lease": "", "with one": `"max_tokens": 500000`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrew(t, 1_000_000, xpawl, func(agent string, n int) endpoint.Answer {
				switch {
				case agent == "lead":
					return calls("helper")
				case agent == "helper" && n == 0:
					answer := calls("scout")
					answer.Read, answer.Written = 900, 100
					return answer
				case agent == "helper":
					return endpoint.Answer{Text: "Thinking", Hang: true}
				}
				return endpoint.Answer{Text: "Seen.", Read: 700, Written: 50}
			})
			c.serve()
			run := c.start()
			c.await("helper", 2)
			if _, err := c.runs.CancelRun(t.Context(), &pawlv1.CancelRunRequest{RunId: run, RequestId: "c"}); err != nil {
				t.Fatal(err)
			}
			c.addsUp(15 + 1000 + 750)
		})
	}
}

// TestAccountsHaveWhatAgentsConsume: if an agent consumes more than its lease, the account has
// all of it, and only once.
func TestAccountsHaveWhatAgentsConsume(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 50_000, `"max_tokens": 40000`, func(who string, n int) endpoint.Answer {
		switch {
		case who == "lead" && n == 0:
			return calls("helper")
		case who == "lead":
			return leaveAnswer()
		}
		return endpoint.Answer{Text: "Helped.", Read: 100_000, Written: 100}
	})
	c.serve()
	ended := c.wait(c.start())
	if ended.GetTokens() > 40000 || ended.GetStatus() != pawlv1.RunStatus_RUN_STATUS_BUDGET_EXHAUSTED {
		t.Errorf("the lead has %d tokens, %s (%s)", ended.GetTokens(), ended.GetStatus(), ended.GetReason())
	}
	c.addsUp(100_100)
}

// TestAccountsOfAgentsSurvive: a sidecar ends while the run of an agent is in progress. What this
// run consumes afterwards counts in the same account.
func TestAccountsOfAgentsSurvive(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 1_000_000, "", func(agent string, n int) endpoint.Answer {
		switch {
		case agent == "lead" && n == 0:
			return calls("helper")
		case agent == "lead":
			return leaveAnswer()
		case agent == "helper" && n == 0:
			return calls("scout")
		case agent == "scout" && n == 0:
			return endpoint.Answer{Text: "Looking", Hang: true}
		}
		return endpoint.Answer{Text: "Done.", Read: 400, Written: 20}
	})
	c.serve()
	run := c.start()
	c.await("scout", 1)
	c.stop()
	c.serve()
	if ended := c.wait(run); ended.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Errorf("the lead is %s (%s)", ended.GetStatus(), ended.GetReason())
	}
	c.addsUp(2 * 420)
}

// TestCopiesOfAgentsAreCounted: a copy of an agent's run stands alone, with the labels by
// which the run was counted.
func TestCopiesOfAgentsAreCounted(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 1_000_000, "", func(who string, n int) endpoint.Answer {
		switch {
		case who == "lead" && n == 0:
			return calls("helper")
		case who == "lead":
			return leaveAnswer()
		}
		return endpoint.Answer{Text: "Done.", Read: 400, Written: 20}
	})
	c.serve()
	c.wait(c.start())
	for _, run := range c.all() {
		if run.GetParent() == nil {
			continue
		}
		copied, err := c.runs.ForkRun(t.Context(), &pawlv1.ForkRunRequest{RunId: run.GetRunId(), AtSeq: 1, RequestId: "f", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
		if err != nil {
			t.Fatal(err)
		}
		if ended := c.wait(copied.GetRun().GetRunId()); ended.GetLabels()["tenant"] != "acme" || ended.GetParent() != nil {
			t.Errorf("the copy is %v", ended)
		}
	}
	c.addsUp(2 * 420)
}

// TestNobodyNamesAccounts: a run that a caller starts over A2A is counted by its own labels, and it
// has none. The labels in the delegation of its message are ignored.
func TestNobodyNamesAccounts(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 1_000_000, "", func(string, int) endpoint.Answer { return endpoint.Answer{Text: "Done."} })
	c.config.Budgets = writeFile(t, "budgets.yaml", "accounts:\n- {label: tenant, window: ever, max_tokens: 1000}\n- {window: ever, max_tokens: 1000000}\n")
	c.serve()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "1.0", "a2a-extensions", protocol.DelegationURI)
	said, err := structpb.NewStruct(map[string]any{protocol.DelegationURI: map[string]any{
		"run": "01J99999999999999999999999", "step": 1, "attempt": 1, "depth": 0, "origin": "",
		"payer": map[string]any{"labels": []any{map[string]any{"key": "tenant", "value": "acme"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := a2apb.NewA2AServiceClient(dial(t, c.server.ready.GRPC)).SendMessage(ctx, &a2apb.SendMessageRequest{Tenant: "crew/helper", Message: &a2apb.Message{
		MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "Go."}}}, Metadata: said,
	}})
	if err != nil {
		t.Fatal(err)
	}
	c.wait(got.GetTask().GetId())
	list, err := c.control.ListBudgets(t.Context(), &pawlv1.ListBudgetsRequest{})
	if err != nil || len(list.GetAccounts()) != 1 || list.GetAccounts()[0].GetName() != "/ever" || list.GetAccounts()[0].GetSettledTokens() == 0 {
		t.Errorf("accounts %v, %v", list.GetAccounts(), err)
	}
	c.stop()
}

// TestAccountsOfAgentsElsewhere: what an agent of another sidecar consumes is settled by the step,
// in the account of the step's run.
func TestAccountsOfAgentsElsewhere(t *testing.T) {
	t.Parallel()
	says := func(who string, n int) endpoint.Answer {
		switch {
		case who == "lead" && n == 0:
			return calls("helper")
		case who == "lead":
			return leaveAnswer()
		}
		return endpoint.Answer{Text: "Done.", Read: 400, Written: 20}
	}
	remote := newCrew(t, 1000, "", says)
	remote.config.HTTP = "127.0.0.1:0"
	remote.config.A2AExecution = "SIDECAR"
	remote.serve()
	c := newCrew(t, 1_000_000, "", says)
	c.config.Agents = map[string]config.Agent{"helper": {Card: cardOf(t, remote.server.ready.HTTP, "crew/helper", "GRPC")}}
	c.serve()
	if ended := c.wait(c.start()); ended.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Errorf("the lead is %s (%s)", ended.GetStatus(), ended.GetReason())
	}
	if settled, held := c.account(); settled != c.consumed()+420 || held != 0 {
		t.Errorf("%d settled and %d held, the lead itself consumed %d", settled, held, c.consumed())
	}
	c.stop()
	remote.stop()
}
