package a2a_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawl "github.com/pawl-dev/pawl/clients/go"
	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/test/testkit/jsonvalues"
)

// withLook gives the till a tool that is always approved and answers with what it was given.
func withLook(c *payments) func(*rig) {
	return func(r *rig) {
		withTill(c)(r)
		r.tools["look"] = func(ctx context.Context, step *pawl.Step) (json.RawMessage, error) {
			_, err := c.pay(ctx, step)
			return json.RawMessage(step.Assignment.GetPayloadJson()), err
		}
	}
}

// asText is how JSON is given where A2A has doubles.
func asText(value string) *a2apb.Part {
	return protocol.PartToProto(&machine.Part{Kind: machine.PartJSON, Data: []byte(value)})
}

// TestValuesOfHeldCalls: what is asked, what is decided about, what the tool gets and what its
// answer says is the value that was asked for, or the call is refused by name.
func TestValuesOfHeldCalls(t *testing.T) {
	t.Parallel()
	for _, v := range jsonvalues.All {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			c := &payments{}
			r := newRig(t, withLook(c))
			task := r.send(r.context(""), message("till/clerk", "call look "+v.Text))
			if v.Refused != "" {
				if said := outputOf(task) + task.GetStatus().String(); c.report() != "" || !strings.Contains(said, v.Refused) {
					t.Errorf("called with %q: %s, want %q", c.report(), said, v.Refused)
				}
				return
			}
			q := question(t, task.GetStatus().GetMessage().GetParts())
			if (q.Text == "") != v.Double || q.Text != "" && q.Payload != nil {
				t.Errorf("it asks %+v", q)
			}
			if shown := q.Text + string(q.Payload); !jsonvalues.Equal(shown, v.Text) {
				t.Errorf("the approver is shown %s", shown)
			}
			got := r.send(r.context(""), decisionMessage(t, task, "till/clerk", "", map[string]any{"step": q.Step, "digest": q.Digest, "decision": "approve"}))
			if !jsonvalues.Equal(c.report(), v.Text) || !jsonvalues.Equal(outputOf(got), v.Text) {
				t.Errorf("the tool got %s and said %s", c.report(), outputOf(got))
			}
		})
	}
}

// TestValuesOfEdits: an edit is the value that the approver gives, as text where A2A has doubles.
func TestValuesOfEdits(t *testing.T) {
	t.Parallel()
	c := &payments{}
	r := newRig(t, withLook(c))
	for _, v := range jsonvalues.All {
		if v.Refused != "" {
			continue
		}
		c.paid = nil
		task := r.send(r.context(""), message("till/clerk", `call look {"for":"`+v.Name+`"}`))
		q := question(t, task.GetStatus().GetMessage().GetParts())
		decision := fmt.Sprintf(`{%q:{"step":%d,"digest":%q,"decision":"edit","payload":%s}}`, protocol.ApprovalURI, q.Step, q.Digest, v.Text)
		req := decisionMessage(t, task, "till/clerk", "", map[string]any{})
		req.Message.Parts = []*a2apb.Part{asText(decision)}
		r.send(r.context(""), req)
		if !jsonvalues.Equal(c.report(), v.Text) {
			t.Errorf("%s: the tool got %s", v.Name, c.report())
		}
	}
}

// TestValuesOfTasks: data of outputs and artifacts is read over every binding as it was given,
// as data, or as text where a number of it is another one as a double.
func TestValuesOfTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, v := range jsonvalues.All {
		if v.Refused != "" {
			continue
		}
		req := message("crew/reviewer", "report "+v.Text)
		task := r.send(r.context(""), req)
		raw := r.http("GET", "/a2a/crew/reviewer/tasks/"+task.GetId(), "").body
		rest, rpcTask := &a2apb.Task{}, &a2apb.Task{}
		var frame struct{ Result json.RawMessage }
		said := r.http("POST", "/a2a/crew/reviewer", rpc("GetTask", `{"id":"`+task.GetId()+`"}`)).body
		if err := json.Unmarshal(said, &frame); err != nil || protojson.Unmarshal(raw, rest) != nil || protojson.Unmarshal(frame.Result, rpcTask) != nil {
			t.Fatal(err, string(raw), string(said))
		}
		for binding, seen := range map[string]*a2apb.Task{"gRPC": task, "HTTP+JSON": rest, "JSON-RPC": rpcTask} {
			if n := len(seen.GetArtifacts()); n != 2 {
				t.Errorf("%s: %d artifacts: %v", v.Name, n, seen)
			}
			for _, artifact := range seen.GetArtifacts() {
				part := artifact.GetParts()[0]
				read, err := protocol.PartsFromProto("parts", artifact.GetParts())
				if err != nil || read[0].Kind != machine.PartJSON || !jsonvalues.Equal(string(read[0].Data), v.Text) {
					t.Errorf("%s over %s: %s says %v, %v", v.Name, binding, artifact.GetName(), artifact.GetParts(), err)
				}
				if isText := part.GetText() != ""; isText == v.Double || isText && (part.GetMediaType() != "application/json" || !jsonvalues.Equal(part.GetText(), v.Text)) {
					t.Errorf("%s over %s: %v", v.Name, binding, part)
				}
			}
		}
	}
}

// TestValuesOfMessages: the turn sees the data that a message brings, as data or as text; over
// JSON a number that is another one as a double is refused by name.
func TestValuesOfMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, v := range jsonvalues.All {
		for binding, path := range map[string]string{"JSON-RPC": "/a2a/crew/writer", "HTTP+JSON": "/a2a/crew/writer/message:send"} {
			body := fmt.Sprintf(`{"message":{"messageId":"m-%d-%s","role":"ROLE_USER","parts":[{"data":%s}],"metadata":{"about":%s}}}`, i, binding, v.Text, v.Text)
			if binding == "JSON-RPC" {
				body = rpc("SendMessage", body)
			}
			said := string(r.http("POST", path, body).body)
			switch {
			case v.Refused != "" && !strings.Contains(said, v.Refused):
				t.Errorf("%s over %s: %s", v.Name, binding, said)
			case v.Refused == "" && !v.Double && !strings.Contains(said, "is another one as a 64-bit floating-point number; give it as a text"):
				t.Errorf("%s over %s: %s", v.Name, binding, said)
			case v.Double && strings.Contains(said, `"error"`):
				t.Errorf("%s over %s: %s", v.Name, binding, said)
			}
		}
		if v.Refused != "" {
			continue
		}
		req := message("crew/writer", fmt.Sprint("value ", i))
		req.Message.Parts = []*a2apb.Part{asText(v.Text)}
		task := r.send(r.context(""), req)
		read, err := protocol.PartsFromProto("parts", task.GetArtifacts()[0].GetParts())
		if err != nil || read[0].Kind != machine.PartJSON || !jsonvalues.Equal(string(read[0].Data), v.Text) {
			t.Errorf("%s as text: %v, %v", v.Name, task, err)
		}
	}
	req := message("crew/writer", "no JSON")
	req.Message.Parts = []*a2apb.Part{asText(`{"n":9007199254740993}`)}
	req.Message.Parts[0].Content = &a2apb.Part_Text{Text: `{"n":1,"n":2}`}
	if _, err := r.client.SendMessage(r.context(""), req); err == nil || !strings.Contains(err.Error(), "message.parts[0].text: is not JSON") {
		t.Error(err)
	}
}

// TestValuesOfDelegations: the run that delegates records the data that its agent answers, within a
// sidecar and over each binding.
func TestValuesOfDelegations(t *testing.T) {
	t.Parallel()
	for _, binding := range []string{"", "GRPC", "JSONRPC", "HTTP+JSON"} {
		t.Run("over "+binding, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, withTokens, withTill(&payments{}))
			if binding != "" {
				r = r.bridged(t, binding)
			}
			for _, v := range jsonvalues.All {
				if v.Refused != "" {
					continue
				}
				task := r.send(r.context(carol), message("till/desk", "pass data "+v.Text))
				var result struct{ Output json.RawMessage }
				if err := json.Unmarshal([]byte(outputOf(task)), &result); err != nil || !jsonvalues.Equal(string(result.Output), v.Text) {
					t.Errorf("%s: the result is %s, %v", v.Name, outputOf(task), err)
				}
			}
		})
	}
}
