package a2a_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/a2a/terms"
	"github.com/pawl-dev/pawl/internal/cli"
)

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
	req.Message.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{terms.DelegationURI: value}}
	return req
}

// claims, by binding, send a message as a principal; "" = it was taken, else the answer has the reason.
var claims = map[string]func(r *rig, who string, req *a2apb.SendMessageRequest) string{
	"GRPC": func(r *rig, who string, req *a2apb.SendMessageRequest) string {
		_, err := r.client.SendMessage(r.context(who, "a2a-extensions", terms.DelegationURI), req)
		if err == nil {
			return ""
		}
		return refusedBy(err) + " " + err.Error()
	},
	"JSONRPC": func(r *rig, who string, req *a2apb.SendMessageRequest) string {
		return r.posted("/", who, rpc("SendMessage", protojson.Format(req)))
	},
	"HTTP+JSON": func(r *rig, who string, req *a2apb.SendMessageRequest) string {
		return r.posted("/a2a/"+req.GetTenant()+"/message:send", who, protojson.Format(req))
	},
}

func (r *rig) posted(path, who, body string) string {
	got := r.http("POST", path, body, "Authorization", "Bearer "+secretOf(who), "A2a-Extensions", terms.DelegationURI)
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
		{boss, boss, carol, "APPROVER_IS_STARTER"},
		{dave, boss, dave, "APPROVER_IS_STARTER"},
		{dave, boss, "far>dave", "APPROVER_IS_STARTER"},
		{dave, boss, "dave>carol", "APPROVER_IS_STARTER"},
		{dave, boss, "far>dave>carol", "APPROVER_IS_STARTER"},
		{dave, boss, "far>", "INVALID_PARAMS"},
		{dave, boss, "far>>carol", "INVALID_PARAMS"},
		{dave, boss, carol, ""},
		{dave, boss, "", ""},
	}
	for binding, send := range claims {
		t.Run(binding, func(t *testing.T) {
			t.Parallel()
			c := &till{}
			r := newRig(t, withTokens, withTill(c))
			want := 0
			for i, row := range rows {
				task, q := r.holds(t, row.starter, "till/clerk", fmt.Sprintf(`call wire {"n":%d}`, i))
				req := answering(t, task, "till/clerk", "", map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"})
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
			if paid := len(strings.Fields(c.did())); paid != want {
				t.Errorf("the tool was called with %s, want %d calls", c.did(), want)
			}
		})
	}
}

// decidedAs checks the principal of the record of a decision.
func (r *rig) decidedAs(t *testing.T, run, want string) {
	t.Helper()
	runs := pawlv1.NewRunServiceClient(r.dial(grpc.WithPerRPCCredentials(cli.Bearer(secretOf(boss)))))
	list, err := runs.ListTransitions(r.context(""), &pawlv1.ListTransitionsRequest{RunId: run, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DECIDED}})
	if err != nil || len(list.GetRecords()) != 1 || list.GetRecords()[0].GetPrincipal() != want {
		t.Errorf("decided by %v, %v, want %s", list.GetRecords(), err, want)
	}
}

// TestClaimsByNobody: where every caller is anonymous, an invented answerer decides no more than
// anonymous does.
func TestClaimsByNobody(t *testing.T) {
	t.Parallel()
	c := &till{}
	r := newRig(t, withTill(c))
	task, q := r.holds(t, "", "till/clerk", "call wire {}")
	decision := map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"}
	for _, claim := range []string{"", "nobody-at-all", "anonymous", "far>boss"} {
		req := answering(t, task, "till/clerk", "", decision)
		if claim != "" {
			req = claiming(t, req, claim)
		}
		req.Message.MessageId += claim
		if _, err := r.client.SendMessage(r.context("", "a2a-extensions", terms.DelegationURI), req); refusedBy(err) != "APPROVER_IS_STARTER" {
			t.Errorf("in the name of %q: %v", claim, err)
		}
	}
	if c.did() != "" {
		t.Errorf("the tool was called with %s", c.did())
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
			c := &till{}
			far := newRig(t, withTokens, withTill(c))
			near := far
			if binding != "" {
				near = far.through(t, binding)
			}
			task, q := near.holds(t, dave, "till/desk", "pass call wire {}")
			decision := map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"}
			got := near.send(near.context(dave), answering(t, task, "till/desk", "", decision))
			for strings.Contains(got.GetStatus().GetState().String(), "WORKING") {
				got = near.now(t, dave, "till/desk", task.GetId())
			}
			if got.GetStatus().GetState() != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || !strings.Contains(fmt.Sprint(got.GetStatus()), "APPROVER_IS_STARTER") {
				t.Errorf("the starter decides over the hop: %v", got)
			}
			control := pawlv1.NewControlServiceClient(far.dial(grpc.WithPerRPCCredentials(cli.Bearer(secretOf(carol)))))
			waits, err := control.ListApprovals(far.context(""), &pawlv1.ListApprovalsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(waits.GetApprovals(), func(a *pawlv1.Approval) bool { return a.GetCall().GetTool() == "wire" })
			if at < 0 || c.did() != "" {
				t.Fatalf("the call was made with %q; what waits: %v", c.did(), waits)
			}
			held := waits.GetApprovals()[at]
			if _, err := control.DecideStep(far.context(""), &pawlv1.DecideStepRequest{
				RunId: held.GetRunId(), Step: held.GetCall().GetStep(), Digest: held.GetCall().GetApproval().GetDigest(), Decision: pawlv1.StepDecision_STEP_DECISION_APPROVE,
			}); err != nil {
				t.Errorf("the approver where the call is held: %v", err)
			}
			for c.did() == "" && !t.Failed() {
				got = near.now(t, dave, "till/desk", task.GetId())
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
	r := newRig(t, withTokens, withTill(&till{}))
	runs := pawlv1.NewRunServiceClient(r.conn)
	for who, may := range map[string]bool{dave: false, bridge: true, boss: false} {
		got, err := runs.GetCaller(r.context(who, "a2a-extensions", terms.DelegationURI), &pawlv1.GetCallerRequest{})
		if err != nil || got.GetPrincipal() != who || slices.Contains(got.GetScopes(), "tasks:answer-for") != may {
			t.Errorf("%s is %v, %v", who, got, err)
		}
	}
}
