package a2a_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/output"
)

// withWires gives a rig the pack whose calls the starter does not approve, and its tool.
func withWires(c *payments) func(*rig) {
	return func(r *rig) {
		r.config.Packs, r.config.AllowTools = []string{"testdata/claims.yaml"}, []string{"*"}
		r.tools = map[string]pawl.ToolFunc{"wire": c.pay}
	}
}

// every is what a claim says of the rights of the one that it names.
var every = []any{"admin", "steps:approve", "runs:write", "runs:read", "values:sensitive", "tasks:answer-for"}

// claiming gives a message an answerer.
func claiming(t *testing.T, req *a2apb.SendMessageRequest, name string) *a2apb.SendMessageRequest {
	t.Helper()
	value, err := structpb.NewValue(map[string]any{
		"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "step": 1, "attempt": 1, "depth": 0,
		"answerer": map[string]any{"principal": name, "scopes": every},
	})
	if err != nil {
		t.Fatal(err)
	}
	req.Message.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{protocol.DelegationURI: value}}
	return req
}

// claims, by binding, send a message as a principal; "" = it was taken, else the answer has the reason.
var claims = map[string]func(r *rig, who string, req *a2apb.SendMessageRequest) string{
	"GRPC": func(r *rig, who string, req *a2apb.SendMessageRequest) string {
		_, err := r.client.SendMessage(r.context(who, "a2a-extensions", protocol.DelegationURI), req)
		if err == nil {
			return ""
		}
		return refusedBy(err) + " " + err.Error()
	},
	"JSONRPC": func(r *rig, who string, req *a2apb.SendMessageRequest) string {
		return r.post("/", who, rpc("SendMessage", protojson.Format(req)))
	},
	"HTTP+JSON": func(r *rig, who string, req *a2apb.SendMessageRequest) string {
		return r.post("/a2a/"+req.GetTenant()+"/message:send", who, protojson.Format(req))
	},
}

func (r *rig) post(path, who, body string) string {
	got := r.http("POST", path, body, "Authorization", "Bearer "+secretOf(who), "A2a-Extensions", protocol.DelegationURI)
	if got.status == 200 && !strings.Contains(string(got.body), `"error"`) {
		return ""
	}
	return string(got.body)
}

// TestClaimsDecideNothing: an answer in the name of another principal takes the scope for it, and no
// claim, of whichever principal in whichever chain, lets the starter of a task decide about it.
func TestClaimsDecideNothing(t *testing.T) {
	t.Parallel()
	rows := []struct{ starter, by, claim, reason string }{
		{dave, dave, "", "APPROVER_IS_STARTER"},
		{dave, dave, "nobody-at-all", "SCOPE_MISSING"},
		{dave, dave, carol, "SCOPE_MISSING"},
		{dave, dave, dave, "SCOPE_MISSING"},
		{bridge, bridge, "", "APPROVER_IS_STARTER"},
		{bridge, bridge, "nobody-at-all", "APPROVER_IS_STARTER"},
		{bridge, bridge, "far>carol", "APPROVER_IS_STARTER"},
		{adminToken, adminToken, carol, "APPROVER_IS_STARTER"},
		{dave, adminToken, dave, "APPROVER_IS_STARTER"},
		{dave, adminToken, "far>dave", "APPROVER_IS_STARTER"},
		{dave, adminToken, "dave>carol", "APPROVER_IS_STARTER"},
		{dave, adminToken, "far>dave>carol", "APPROVER_IS_STARTER"},
		{dave, adminToken, "far>", "INVALID_PARAMS"},
		{dave, adminToken, "far>>carol", "INVALID_PARAMS"},
		{dave, adminToken, carol, ""},
		{dave, adminToken, "", ""},
	}
	for binding, send := range claims {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			c := &payments{}
			r := newRig(t, withTokens, withWires(c))
			want := 0
			for i, row := range rows {
				task, q := r.holdCall(t, row.starter, "till/clerk", fmt.Sprintf(`call wire {"n":%d}`, i))
				req := decisionMessage(t, task, "till/clerk", "", map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"})
				if row.claim != "" {
					req = claiming(t, req, row.claim)
				}
				got := send(r, row.by, req)
				if (got == "") != (row.reason == "") || !strings.Contains(got, row.reason) {
					t.Errorf("%s started it, %s decides in the name of %q: %q, want %q", row.starter, row.by, row.claim, got, row.reason)
				}
				if row.reason == "SCOPE_MISSING" && !strings.Contains(got, "tasks:answer-for") {
					t.Errorf("the refusal does not name the scope: %s", got)
				}
				if row.reason == "" {
					want++
					r.decidedAs(t, task.GetId(), strings.TrimSuffix(row.by+">"+row.claim, ">"))
				}
			}
			if paid := len(strings.Fields(c.report())); paid != want {
				t.Errorf("the tool was called with %s, want %d calls", c.report(), want)
			}
		})
	}
}

// decidedAs checks the principal of the record of a decision.
func (r *rig) decidedAs(t *testing.T, run, want string) {
	t.Helper()
	runs := pawlv1.NewRunServiceClient(r.dial(grpc.WithPerRPCCredentials(output.Bearer(secretOf(adminToken)))))
	list, err := runs.ListTransitions(r.context(""), &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED}})
	if err != nil || len(list.GetRecords()) != 1 || list.GetRecords()[0].GetPrincipal() != want {
		t.Errorf("decided by %v, %v, want %s", list.GetRecords(), err, want)
	}
}

// TestClaimsByNobody: where every caller is anonymous, an invented answerer decides no more than
// anonymous does.
func TestClaimsByNobody(t *testing.T) {
	t.Parallel()
	c := &payments{}
	r := newRig(t, withWires(c))
	task, q := r.holdCall(t, "", "till/clerk", "call wire {}")
	decision := map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"}
	for _, claim := range []string{"", "nobody-at-all", "anonymous", "far>boss"} {
		req := decisionMessage(t, task, "till/clerk", "", decision)
		if claim != "" {
			req = claiming(t, req, claim)
		}
		req.Message.MessageId += claim
		if _, err := r.client.SendMessage(r.context("", "a2a-extensions", protocol.DelegationURI), req); refusedBy(err) != "APPROVER_IS_STARTER" {
			t.Errorf("in the name of %q: %v", claim, err)
		}
	}
	if c.report() != "" {
		t.Errorf("the tool was called with %s", c.report())
	}
}

// TestClaimsOverSidecars: the starter of a task does not decide through a delegation either, within
// a sidecar or over the wire, where the credential of the near sidecar started the far task. The far
// sidecar's own approver does.
func TestClaimsOverSidecars(t *testing.T) {
	t.Parallel()
	for _, binding := range []string{"", "GRPC", "JSONRPC", "HTTP+JSON"} {
		t.Run("over "+binding, func(t *testing.T) {
			t.Parallel()
			c := &payments{}
			remote := newRig(t, withTokens, withWires(c))
			local := remote
			if binding != "" {
				local = remote.bridged(t, binding)
			}
			task, q := local.holdCall(t, dave, "till/desk", "pass call wire {}")
			decision := map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"}
			got := local.send(local.context(dave), decisionMessage(t, task, "till/desk", "", decision))
			for strings.Contains(got.GetStatus().GetState().String(), "WORKING") {
				got = local.now(t, dave, "till/desk", task.GetId())
			}
			if got.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || !strings.Contains(fmt.Sprint(got.GetStatus()), "APPROVER_IS_STARTER") {
				t.Errorf("the starter decides over the hop: %v", got)
			}
			control := pawlv1.NewControlServiceClient(remote.dial(grpc.WithPerRPCCredentials(output.Bearer(secretOf(carol)))))
			waits, err := control.ListApprovals(remote.context(""), &pawlv1.ListApprovalsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(waits.GetApprovals(), func(a *pawlv1.Approval) bool { return a.GetCall().GetTool() == "wire" })
			if at < 0 || c.report() != "" {
				t.Fatalf("the call was made with %q; what waits: %v", c.report(), waits)
			}
			approval := waits.GetApprovals()[at]
			if _, err := control.DecideStep(remote.context(""), &pawlv1.DecideStepRequest{
				RunId: approval.GetRunId(), Step: approval.GetCall().GetStep(), Digest: approval.GetCall().GetApproval().GetDigest(), Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE,
			}); err != nil {
				t.Errorf("the approver where the call is held: %v", err)
			}
			for c.report() == "" && !t.Failed() {
				got = local.now(t, dave, "till/desk", task.GetId())
				if got.GetStatus().GetState() == a2apb.TaskState_TASK_STATE_FAILED {
					t.Fatal(got)
				}
			}
		})
	}
}

// TestCallerIsWhoCalls: what a call says of an answerer changes nothing about who calls.
func TestCallerIsWhoCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, withTokens, withWires(&payments{}))
	runs := pawlv1.NewRunServiceClient(r.conn)
	for principal, may := range map[string]bool{dave: false, bridge: true, adminToken: false} {
		got, err := runs.GetCaller(r.context(principal, "a2a-extensions", protocol.DelegationURI), &pawlv1.GetCallerRequest{})
		if err != nil || got.GetPrincipal() != principal || slices.Contains(got.GetScopes(), "tasks:answer-for") != may {
			t.Errorf("%s is %v, %v", principal, got, err)
		}
	}
}

// TestClaimsGiveNothing: a credential that may speak in another's name has none of what is the
// other's: no task, no message that was sent before, no push configuration, no quota. The audit
// has both names.
func TestClaimsGiveNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "audit")
	r := newRig(t, withTokens, withWires(&payments{}), func(r *rig) { r.config.Audit = dir })
	otherTask, _ := r.holdCall(t, dave, "till/clerk", "call wire {}")
	send := func(who, claim, task, words string) (*a2apb.Task, error) {
		req := message("till/clerk", words)
		req.Message.TaskId = task
		if claim != "" {
			req = claiming(t, req, claim)
		}
		got, err := r.client.SendMessage(r.context(who, "a2a-extensions", protocol.DelegationURI), req)
		return got.GetTask(), err
	}
	if _, err := send(bridge, dave, otherTask.GetId(), "hello"); refusedBy(err) != "TASK_NOT_FOUND" {
		t.Errorf("a message to the task of the one that is named: %v", err)
	}
	first, err := send(dave, "", "", "once")
	if err != nil {
		t.Fatal(err)
	}
	own, err := send(bridge, dave, "", "once")
	if err != nil || own.GetId() == first.GetId() {
		t.Fatalf("the same message in another's name is the other's task: %v, %v", own, err)
	}
	if again, err := send(bridge, dave, "", "once"); err != nil || again.GetId() != own.GetId() {
		t.Errorf("the caller's message, sent again: %v, %v", again, err)
	}
	for _, row := range []struct {
		what      string
		who, task string
		found     bool
	}{
		{"the named one has the task that was begun in its name", dave, own.GetId(), false},
		{"the caller has the task that it began", bridge, own.GetId(), true},
		{"the caller has the task of the one that it names", bridge, otherTask.GetId(), false},
	} {
		_, got := r.client.GetTask(r.context(row.who), &a2apb.GetTaskRequest{Tenant: "till/clerk", Id: row.task})
		_, pushes := r.client.ListTaskPushNotificationConfigs(r.context(row.who), &a2apb.ListTaskPushNotificationConfigsRequest{Tenant: "till/clerk", TaskId: row.task})
		if (got == nil) != row.found || (pushes == nil) != row.found {
			t.Errorf("%s: %v, its push configurations: %v; want found %v", row.what, got, pushes, row.found)
		}
		if !row.found {
			if _, err := r.client.CancelTask(r.context(row.who), &a2apb.CancelTaskRequest{Tenant: "till/clerk", Id: row.task}); refusedBy(err) != "TASK_NOT_FOUND" {
				t.Errorf("%s, and cancels it: %v", row.what, err)
			}
		}
	}
	if _, err := send(dave, carol, otherTask.GetId(), "hello"); refusedBy(err) != "SCOPE_MISSING" {
		t.Error(err)
	}
	var lines []string
	if _, err := audit.Verify(dir, nil, func(e *audit.Entry, _ string, _ []byte) error {
		if e.Note != "" {
			lines = append(lines, e.Principal+" "+e.Note+": "+e.Outcome)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bridge names dave as the answerer: NOT_FOUND", "bridge names dave as the answerer: OK", "dave names carol as the answerer: PERMISSION_DENIED"} {
		if !slices.Contains(lines, want) {
			t.Errorf("the audit lacks %q: %q", want, lines)
		}
	}
}

// TestWhoForksIsAStarter: the call of a fork is decided by another principal than the one that
// forked the run, be it the one that started the source.
func TestWhoForksIsAStarter(t *testing.T) {
	t.Parallel()
	c := &payments{}
	r := newRig(t, withTokens, withWires(c))
	task, _ := r.holdCall(t, dave, "till/clerk", "call wire {}")
	conn := map[string]*grpc.ClientConn{}
	for _, who := range []string{dave, carol} {
		conn[who] = r.dial(grpc.WithPerRPCCredentials(output.Bearer(secretOf(who))))
	}
	forked, err := pawlv1.NewRunServiceClient(conn[carol]).ForkRun(r.context(""), &pawlv1.ForkRunRequest{RunId: task.GetId(), AtSeq: 1})
	if err != nil {
		t.Fatal(err)
	}
	var approval *pawlv1.Approval
	for approval == nil && !t.Failed() {
		waits, err := pawlv1.NewControlServiceClient(conn[carol]).ListApprovals(r.context(""), &pawlv1.ListApprovalsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range waits.GetApprovals() {
			if a.GetRunId() == forked.GetRun().GetRunId() {
				approval = a
			}
		}
	}
	decide := func(who string) error {
		_, err := pawlv1.NewControlServiceClient(conn[who]).DecideStep(r.context(""), &pawlv1.DecideStepRequest{
			RunId: approval.GetRunId(), Step: approval.GetCall().GetStep(), Digest: approval.GetCall().GetApproval().GetDigest(), Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE,
		})
		return err
	}
	if err := decide(carol); refusedBy(err) != "APPROVER_IS_STARTER" || approval.GetStarter() != carol {
		t.Errorf("carol, who forked it, decides: %v; started by %s", err, approval.GetStarter())
	}
	if err := decide(dave); err != nil {
		t.Errorf("dave, who did not fork it: %v", err)
	}
}
