package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// wires is a pack whose call the one that started the task does not approve.
const wires = `id: till
name: Till
version: 1.0.0
template_engine: { version: v1, syntax: "{{variable}}" }
prompts:
  clerk: { id: clerk, name: Clerk, version: 1.0.0, system_template: Wire., tools: [wire] }
tools:
  wire: { name: wire, description: Wires money., parameters: { type: object, properties: {} } }
workflow:
  version: 2
  entry: work
  engine: { x_pawl: { tools: { wire: { attempts: 3, approve: always, approval: { timeout_sec: 3600, not_starter: true } } } } }
  states: { work: { prompt_task: clerk, terminal: true } }
agents: { entry: clerk, members: { clerk: {} } }
`

const (
	delegationExtension = "https://pawl.dev/a2a/delegation/v1"
	approvalExtension   = "https://pawl.dev/a2a/approval/v1"
)

// agentOffice is a sidecar that is killed again and again, with principals who speak to it over A2A, a
// worker, and what its tool did.
type agentOffice struct {
	*sidecar
	ctx     context.Context
	binding string
	// sent numbers the messages.
	sent int

	mu       sync.Mutex
	payments []string
}

func newBureau(t *testing.T, binding string) *agentOffice {
	t.Helper()
	rights := "runs:write,runs:read,steps:approve,values:sensitive"
	d := &agentOffice{binding: binding, sidecar: withPrincipals(t, []string{
		"dave " + rights, "bridge " + rights + ",tasks:answer-for", "boss admin", "hands work",
	}, "--allow-tool", "*", "--http", "127.0.0.1:0", "--restart-grace", "1s")}
	d.start()
	d.ctx = deadline(t, 2*patience)
	if _, err := pawlv1.NewPackServiceClient(d.dial()).RegisterPack(asPrincipal(d.ctx, "boss"), &pawlv1.RegisterPackRequest{Content: []byte(wires), Filename: "till.yaml"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(startWorker(asPrincipal(d.ctx, "hands"), t, d.sidecar, pawl.WorkerConfig{
		ID: "hands", Turns: 4, Steps: 4, Prompts: map[string]pawl.TurnFunc{"clerk": wireTurn}, Tools: map[string]pawl.ToolFunc{"wire": d.pay},
	}))
	return d
}

func wireTurn(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
	_, err := turn.Step(ctx, "wire", "wire", "{}")
	return pawl.Completion{}, err
}

func (d *agentOffice) pay(_ context.Context, step *pawl.Step) (json.RawMessage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.payments = append(d.payments, step.Assignment.GetLease().GetRunId())
	return json.RawMessage(`"paid"`), nil
}

// ledger is what the tool did, by task.
func (d *agentOffice) ledger() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(slices.Values(d.payments))
}

func (d *agentOffice) restart() {
	d.t.Helper()
	d.kill()
	d.start()
}

// waits gives the call of a task that waits for a decision, once there is one.
func (d *agentOffice) waits(task string) *pawlv1.Approval {
	d.t.Helper()
	control := pawlv1.NewControlServiceClient(d.dial())
	var found *pawlv1.Approval
	eventually(d.t, "a call of task "+task+" waits", func() bool {
		list, err := control.ListApprovals(asPrincipal(d.ctx, "boss"), &pawlv1.ListApprovalsRequest{RunId: task})
		if err == nil && len(list.GetApprovals()) == 1 {
			found = list.GetApprovals()[0]
		}
		return found != nil
	})
	return found
}

// startHeldTask starts a task, whose call then waits.
func (d *agentOffice) startHeldTask(starter string) string {
	d.t.Helper()
	ctx := metadata.AppendToOutgoingContext(asPrincipal(d.ctx, starter), "a2a-version", "1.0")
	got, err := a2apb.NewA2AServiceClient(d.dial()).SendMessage(ctx, d.message("", &a2apb.Part{Content: &a2apb.Part_Text{Text: "wire it"}}))
	if err != nil {
		d.t.Fatal(err)
	}
	d.waits(got.GetTask().GetId())
	return got.GetTask().GetId()
}

func (d *agentOffice) message(task string, parts ...*a2apb.Part) *a2apb.SendMessageRequest {
	d.sent++
	return &a2apb.SendMessageRequest{
		Tenant: "till/clerk", Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true},
		Message: &a2apb.Message{MessageId: fmt.Sprintf("m-%d", d.sent), TaskId: task, Role: a2apb.Role_ROLE_USER, Parts: parts},
	}
}

// approve sends an approval of the call that waits, in the name of another one unless that is "", and
// gives why it was refused; "": it was taken.
func (d *agentOffice) approve(task, principal, claim string) string {
	d.t.Helper()
	call := d.waits(task).GetCall()
	decision := map[string]any{"step": call.GetStep(), "digest": call.GetApproval().GetDigest(), "decision": "approve"}
	req := d.message(task, &a2apb.Part{Content: &a2apb.Part_Data{Data: structpb.NewStructValue(d.structOf(map[string]any{approvalExtension: decision}))}})
	if claim != "" {
		req.Message.Metadata = d.structOf(map[string]any{delegationExtension: map[string]any{
			"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "step": 1, "attempt": 1, "depth": 0,
			"answerer": map[string]any{"principal": claim, "scopes": []any{"admin", "steps:approve", "runs:write", "runs:read", "values:sensitive"}},
		}})
	}
	switch d.binding {
	case "GRPC":
		ctx := metadata.AppendToOutgoingContext(asPrincipal(d.ctx, principal), "a2a-version", "1.0", "a2a-extensions", delegationExtension)
		_, err := a2apb.NewA2AServiceClient(d.dial()).SendMessage(ctx, req)
		if err == nil {
			return ""
		}
		return pawl.ReasonOf(err) + " " + err.Error()
	case "JSONRPC":
		return d.post("/", principal, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":`+protojson.Format(req)+`}`)
	}
	return d.post("/a2a/till/clerk/message:send", principal, protojson.Format(req))
}

func (d *agentOffice) structOf(fields map[string]any) *structpb.Struct {
	raw, err := json.Marshal(fields)
	var out structpb.Struct
	if err == nil {
		err = protojson.Unmarshal(raw, &out)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return &out
}

func (d *agentOffice) post(path, who, body string) string {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.ctx, http.MethodPost, "http://"+d.http+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + tokenOf(who), "A2a-Extensions": delegationExtension, "A2a-Version": "1.0", "Content-Type": "application/json",
	} {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	if res.StatusCode == http.StatusOK && !strings.Contains(string(raw), `"error"`) {
		return ""
	}
	return string(raw)
}

// TestKillUnderStarters: the one that started a task does not approve its call, by no claim, before the
// sidecar is killed and after it; the one that may does, once, over kills.
func TestKillUnderStarters(t *testing.T) {
	t.Parallel()
	rows := []struct{ starter, by, claim, reason string }{
		{"dave", "dave", "", "APPROVER_IS_STARTER"},
		{"dave", "dave", "nobody-at-all", "SCOPE_MISSING"},
		{"dave", "boss", "far>dave", "APPROVER_IS_STARTER"},
		{"dave", "boss", "dave>carol", "APPROVER_IS_STARTER"},
		{"bridge", "bridge", "nobody-at-all", "APPROVER_IS_STARTER"},
		{"bridge", "bridge", "far>carol", "APPROVER_IS_STARTER"},
	}
	for _, binding := range []string{"GRPC", "JSONRPC", "HTTP+JSON"} {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			d := newBureau(t, binding)
			tasks := map[string]string{"dave": d.startHeldTask("dave"), "bridge": d.startHeldTask("bridge")}
			for _, when := range []string{"before the kill", "after it", "after another"} {
				for _, row := range rows {
					if got := d.approve(tasks[row.starter], row.by, row.claim); !strings.Contains(got, row.reason) {
						t.Errorf("%s: %s started it, %s decides in the name of %q: %q, want %s", when, row.starter, row.by, row.claim, got, row.reason)
					}
				}
				d.restart()
			}
			if made := d.ledger(); len(made) > 0 {
				t.Fatalf("the tool was called for %v before anybody decided", made)
			}
			if got := d.approve(tasks["dave"], "boss", "carol"); got != "" {
				t.Errorf("boss decides in the name of carol: %s", got)
			}
			d.restart()
			if got := d.approve(tasks["bridge"], "boss", ""); got != "" {
				t.Errorf("boss decides: %s", got)
			}
			d.restart()
			for starter, by := range map[string]string{"dave": "boss>carol", "bridge": "boss"} {
				d.paidBy(tasks[starter], by)
			}
			if made, want := d.ledger(), slices.Sorted(slices.Values([]string{tasks["dave"], tasks["bridge"]})); !slices.Equal(made, want) {
				t.Errorf("the tool was called for %v, want %v", made, want)
			}
		})
	}
}

// paidBy waits for the end of a task, about which that principal decided.
func (d *agentOffice) paidBy(task, who string) {
	d.t.Helper()
	runs, ctx := d.runs(), asPrincipal(d.ctx, "boss")
	eventually(d.t, "task "+task+" ends", func() bool {
		got, err := runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: task})
		return err == nil && got.GetRun().GetStatus() == pawlv1.RunStatus_RUN_STATUS_COMPLETED
	})
	list, err := runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{RunId: task, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED}})
	if err != nil || len(list.GetRecords()) != 1 || list.GetRecords()[0].GetPrincipal() != who {
		d.t.Errorf("task %s was decided by %v, %v, want %s", task, list.GetRecords(), err, who)
	}
}
