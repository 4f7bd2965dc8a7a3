package a2a_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
)

// payments records the calls that the tools of a rig made.
type payments struct {
	mu   sync.Mutex
	paid []string
}

func (c *payments) pay(_ context.Context, step *pawl.Step) (json.RawMessage, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paid = append(c.paid, step.Assignment.GetPayloadJson())
	return json.RawMessage(`"paid"`), nil
}

func (c *payments) report() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.paid, " ")
}

// withTill gives a rig the pack whose calls need an approval, and its tools.
func withTill(c *payments) func(*rig) {
	return func(r *rig) {
		r.config.Packs, r.config.AllowTools = []string{"testdata/approvals.yaml"}, []string{"*"}
		r.tools = map[string]pawl.ToolFunc{"refund": c.pay, "payout": c.pay}
	}
}

// questionCall is the held call in the question of a status message.
type questionCall struct {
	Step      uint32            `json:"step"`
	Tool      string            `json:"tool"`
	Digest    string            `json:"digest"`
	Payload   json.RawMessage   `json:"payload"`
	Text      string            `json:"payload_json"`
	Deadline  string            `json:"deadline"`
	OnTimeout string            `json:"on_timeout"`
	Redacted  bool              `json:"redacted"`
	Starter   bool              `json:"not_starter"`
	Answers   map[string]string `json:"answers"`
}

// question returns the held call in the parts of a status message.
func question(t *testing.T, parts []*a2apb.Part) questionCall {
	t.Helper()
	for _, p := range parts {
		if value := p.GetData().GetStructValue().GetFields()[protocol.ApprovalURI]; value != nil {
			var q questionCall
			if err := json.Unmarshal(protocol.ValueFromProto(value), &q); err != nil {
				t.Fatal(err)
			}
			return q
		}
	}
	t.Fatalf("nothing is asked: %v", parts)
	return questionCall{}
}

// holdCall sends words that lead to a held call. It returns the task and the call in its question.
func (r *rig) holdCall(t *testing.T, name, agent, words string) (*a2apb.Task, questionCall) {
	t.Helper()
	task := r.send(r.context(name), message(agent, words))
	if task.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
		t.Fatalf("the task is %v", task)
	}
	return task, question(t, task.GetStatus().GetMessage().GetParts())
}

// decisionMessage returns a message with a decision and a text.
func decisionMessage(t *testing.T, task *a2apb.Task, agent, words string, decision map[string]any) *a2apb.SendMessageRequest {
	t.Helper()
	value, err := structpb.NewValue(map[string]any{protocol.ApprovalURI: decision})
	if err != nil {
		t.Fatal(err)
	}
	req := message(agent, "decide "+words)
	req.Message.TaskId = task.GetId()
	req.Message.Parts = []*a2apb.Part{{Content: &a2apb.Part_Data{Data: value}}}
	if words != "" {
		req.Message.Parts = append(req.Message.Parts, &a2apb.Part{Content: &a2apb.Part_Text{Text: words}})
	}
	return req
}

// refusedBy returns the reason of an error.
func refusedBy(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return fmt.Sprint(err)
}

// outputOf returns the output of the task's last turn.
func outputOf(task *a2apb.Task) string {
	for _, a := range task.GetArtifacts() {
		if a.GetName() == protocol.OutputArtifact {
			return a.GetParts()[0].GetText()
		}
	}
	return ""
}

// TestHeldCallAsks: a task that waits for an approval names the held call. A caller with the right to
// decide answers the question with a message, once.
func TestHeldCallAsks(t *testing.T) {
	t.Parallel()
	c := &payments{}
	r := newRig(t, withTokens, withTill(c))
	task, q := r.holdCall(t, carol, "till/clerk", `call refund {"order":"7","amount":150}`)
	if q.Step != 1 || q.Tool != "refund" || string(q.Payload) != `{"amount":150,"order":"7"}` || q.OnTimeout != "deny" || q.Deadline == "" || len(q.Answers) != 3 {
		t.Fatalf("asked %+v", q)
	}
	decision := map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"}
	for reason, change := range map[string]map[string]any{
		"DIGEST_MISMATCH": {"digest": "sha256:" + strings.Repeat("0", 64)}, "NOTHING_TO_DECIDE": {"step": 9},
		"EXPIRES_IN_PAST": {"expires": "2001-01-01T00:00:00Z"}, "EDIT_REFUSED": {"decision": "edit", "payload": map[string]any{"order": "8", "amount": 1}},
		"DECISION_INVALID": {"decision": "maybe"},
	} {
		bad := map[string]any{}
		for _, from := range []map[string]any{decision, change} {
			maps.Copy(bad, from)
		}
		if _, err := r.client.SendMessage(r.context(carol), decisionMessage(t, task, "till/clerk", "", bad)); refusedBy(err) != reason {
			t.Errorf("%v: %v, want %s", change, err, reason)
		}
	}
	for name, bad := range map[string]map[string]any{
		"no digest": {"step": 1, "decision": "deny"}, "no step": {"digest": q.Digest, "decision": "deny"}, "a word of yesterday": {"step": 1, "digest": q.Digest, "verdict": "deny"},
	} {
		if _, err := r.client.SendMessage(r.context(carol), decisionMessage(t, task, "till/clerk", "", bad)); refusedBy(err) != "DECISION_INVALID" || status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	got := r.send(r.context(carol), decisionMessage(t, task, "till/clerk", "a good customer", decision))
	if got.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED || outputOf(got) != `"paid"` || c.report() != `{"order":"7","amount":150}` {
		t.Errorf("approved: %v, paid %s", got, c.report())
	}
	if h := fmt.Sprint(got.GetHistory()); !strings.Contains(h, "was approved") || !strings.Contains(h, "a good customer") {
		t.Errorf("the history does not tell the decision: %v", h)
	}
	_, err := r.client.SendMessage(r.context(carol), decisionMessage(t, task, "till/clerk", "", decision))
	if reason := refusedBy(err); reason != "UNSUPPORTED_OPERATION" && reason != "ALREADY_DECIDED" {
		t.Errorf("behind the end: %v", err)
	}
}

// TestMessageDecisionsAreInTheAudit: the audit line about a message that decides has the step and the decision, if it was taken and if it was
// refused, over gRPC and over JSON. The line about another message has neither.
func TestMessageDecisionsAreInTheAudit(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "audit")
	r := newRig(t, withTokens, withTill(&payments{}), func(r *rig) { r.config.Audit = dir })
	task, q := r.holdCall(t, carol, "till/clerk", `call refund {"order":"7","amount":150}`)
	decision := map[string]any{"step": q.Step, "digest": q.Digest, "decision": "deny"}
	if _, err := r.client.SendMessage(r.context(alice), decisionMessage(t, task, "till/clerk", "", decision)); err == nil {
		t.Error("alice has decided about a task of carol")
	}
	raw, err := protojson.Marshal(decisionMessage(t, task, "", "no", decision))
	if err != nil {
		t.Fatal(err)
	}
	r.http("POST", "/a2a/till/clerk/message:send", string(raw), "Authorization", "Bearer "+secretOf(carol))
	want := []string{carol + " 0  OK", alice + " 1 DENY NOT_FOUND", carol + " 1 DENY OK"}
	var got []string
	// The line about a request over HTTP can follow its answer.
	for deadline := time.Now().Add(time.Minute); len(got) < len(want) && time.Now().Before(deadline); {
		got = nil
		if _, err := audit.Verify(dir, nil, func(e *audit.Entry, _ string, _ []byte) error {
			if strings.HasSuffix(e.Method, "/SendMessage") {
				got = append(got, fmt.Sprintf("%s %d %s %s", e.Principal, e.Step, e.Decision, e.Outcome))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}

// TestDeniedByMessage: a turn receives a denial as an error. After an edit, it receives the result of the
// edited call.
func TestDeniedByMessage(t *testing.T) {
	t.Parallel()
	c := &payments{}
	r := newRig(t, withTokens, withTill(c))
	task, q := r.holdCall(t, carol, "till/clerk", `call refund {"order":"7","amount":150}`)
	got := r.send(r.context(carol), decisionMessage(t, task, "till/clerk", "not this one", map[string]any{"step": q.Step, "digest": q.Digest, "decision": "deny"}))
	if outputOf(got) != "DENIED: not this one" || c.report() != "" {
		t.Errorf("denied: %v, paid %s", got, c.report())
	}
	task, q = r.holdCall(t, carol, "till/clerk", `call refund {"order":"7","amount":160}`)
	got = r.send(r.context(carol), decisionMessage(t, task, "till/clerk", "", map[string]any{
		"step": q.Step, "digest": q.Digest, "decision": "edit", "payload": map[string]any{"order": "7", "amount": 20},
	}))
	if outputOf(got) != `"paid"` || c.report() != `{"amount":20,"order":"7"}` {
		t.Errorf("edited: %v, paid %s", got, c.report())
	}
}

// TestDecidersByMessage: without the scope, the call stays held. The second of two deciders receives an
// error that names the first. A caller that may not see the arguments does not receive the digest. The
// caller that started the task may not decide if the pack forbids it.
func TestDecidersByMessage(t *testing.T) {
	t.Parallel()
	c := &payments{}
	r := newRig(t, withTokens, withTill(c))
	task, q := r.holdCall(t, alice, "till/clerk", `call refund {"order":"7","amount":150}`)
	decision := map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"}
	_, err := r.client.SendMessage(r.context(alice), decisionMessage(t, task, "till/clerk", "", decision))
	if refusedBy(err) != "SCOPE_MISSING" || status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "steps:approve") {
		t.Errorf("without the scope: %v", err)
	}
	if _, err := r.client.SendMessage(r.context(carol), decisionMessage(t, task, "till/clerk", "", decision)); refusedBy(err) != "TASK_NOT_FOUND" {
		t.Errorf("about another's task: %v", err)
	}
	now, err := r.client.GetTask(r.context(alice), &a2apb.GetTaskRequest{Tenant: "till/clerk", Id: task.GetId()})
	if err != nil || question(t, now.GetStatus().GetMessage().GetParts()).Digest != q.Digest || c.report() != "" {
		t.Fatalf("the call is not held any more: %v, %v, paid %s", now, err, c.report())
	}

	both := make(chan error, 2)
	for _, name := range []string{adminToken, "control"} {
		go func() {
			if name == adminToken {
				_, err := r.client.SendMessage(r.context(adminToken), decisionMessage(t, task, "till/clerk", "", decision))
				both <- err
				return
			}
			conn := r.dial(grpc.WithPerRPCCredentials(output.Bearer(secretOf(carol))))
			_, err := pawlv1.NewControlServiceClient(conn).DecideStep(r.context(""), &pawlv1.DecideStepRequest{
				RunId: task.GetId(), Step: q.Step, Digest: q.Digest, Decision: pawlv1.StepDecision_STEP_DECISION_DENY,
			})
			both <- err
		}()
	}
	var missing []string
	for range 2 {
		if err := <-both; err != nil {
			missing = append(missing, refusedBy(err))
		}
	}
	if len(missing) != 1 || missing[0] != "ALREADY_DECIDED" && missing[0] != "RUN_TERMINAL" && missing[0] != "UNSUPPORTED_OPERATION" && missing[0] != "NOTHING_TO_DECIDE" {
		t.Errorf("of two who decide %v were refused", missing)
	}

	task, q = r.holdCall(t, carol, "till/secret", `call payout {"to":"DE89"}`)
	if !q.Redacted || q.Digest != "" || q.Payload != nil || !q.Starter || strings.Contains(fmt.Sprint(task.GetStatus()), "DE89") {
		t.Errorf("a sensitive call is asked about as %+v: %v", q, task)
	}
	_, err = r.client.SendMessage(r.context(carol), decisionMessage(t, task, "till/secret", "", map[string]any{"step": q.Step, "digest": "sha256:" + strings.Repeat("0", 64), "decision": "approve"}))
	if refusedBy(err) != "SCOPE_MISSING" || !strings.Contains(err.Error(), "values:sensitive") {
		t.Errorf("who may not see the arguments guesses the digest: %v", err)
	}
	task, q = r.holdCall(t, adminToken, "till/secret", `call payout {"to":"DE90"}`)
	if q.Redacted || q.Digest == "" {
		t.Errorf("to who may see all: %+v", q)
	}
	_, err = r.client.SendMessage(r.context(adminToken), decisionMessage(t, task, "till/secret", "", map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"}))
	if refusedBy(err) != "APPROVER_IS_STARTER" {
		t.Errorf("who started the task decides: %v", err)
	}
}

// TestHeldCallOverAHop: if the agent of a delegation needs an approval, the run that delegates asks for it,
// within a sidecar and over the wire on each binding, and the rights of that run decide. A wrong decision
// is refused with a reason, and the question stays open.
func TestHeldCallOverAHop(t *testing.T) {
	t.Parallel()
	for _, binding := range []string{"", "GRPC", "JSONRPC", "HTTP+JSON"} {
		t.Run("over "+binding, func(t *testing.T) {
			t.Parallel()
			c := &payments{}
			r := newRig(t, withTokens, withTill(c))
			if binding != "" {
				r = r.bridged(t, binding)
			}
			task, q := r.holdCall(t, carol, "till/desk", `pass call refund {"order":"7","amount":150}`)
			if q.Tool != "refund" || string(q.Payload) != `{"amount":150,"order":"7"}` {
				t.Fatalf("the parent asks %+v", q)
			}
			wrong := map[string]any{"step": q.Step, "digest": "sha256:" + strings.Repeat("0", 64), "decision": "approve"}
			got := r.send(r.context(carol), decisionMessage(t, task, "till/desk", "", wrong))
			for strings.Contains(got.GetStatus().GetState().String(), "WORKING") {
				got = r.now(t, carol, "till/desk", task.GetId())
			}
			if again := question(t, got.GetStatus().GetMessage().GetParts()); again.Digest != q.Digest || !strings.Contains(fmt.Sprint(got.GetStatus()), "was not taken") {
				t.Errorf("with a wrong digest the parent is %v", got.GetStatus())
			}
			got = r.send(r.context(carol), decisionMessage(t, task, "till/desk", "fine", map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"}))
			if got.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(outputOf(got), `"COMPLETED"`) || c.report() != `{"order":"7","amount":150}` {
				t.Errorf("approved over the hop: %v, paid %s", got, c.report())
			}
		})
	}
}

// now returns the current state of a task.
func (r *rig) now(t *testing.T, name, agent, id string) *a2apb.Task {
	t.Helper()
	got, err := r.client.GetTask(r.context(name), &a2apb.GetTaskRequest{Tenant: agent, Id: id})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// bridged returns another sidecar whose clerk is the clerk of this one, reached over a binding by the
// bridge.
func (r *rig) bridged(t *testing.T, binding string) *rig {
	t.Helper()
	card := r.cardWith(t, "till/clerk", binding)
	return newRig(t, withTokens, withTill(&payments{}), func(local *rig) {
		local.config.Packs, local.tools = r.config.Packs, r.tools
		local.config.Agents = map[string]config.Agent{"till/clerk": {Card: card, TokenFile: writeSecret(t, bridge)}}
	})
}

// cardWith serves the card of one of the rig's agents with only one of its interfaces.
func (r *rig) cardWith(t *testing.T, agent, binding string) string {
	t.Helper()
	card := r.card("/a2a/" + agent)
	card.SupportedInterfaces = slices.DeleteFunc(card.GetSupportedInterfaces(), func(i *a2apb.AgentInterface) bool { return i.GetProtocolBinding() != binding })
	raw, err := protojson.Marshal(card)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(raw)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/card.json"
}

// writeSecret writes the token of a principal into a file.
func writeSecret(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(secretOf(name)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
