package client

import (
	"net/http"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/test/testkit/jsonvalues"
)

// wiresTo are both bindings over HTTP to an agent that answers everything with a task.
func wiresTo(t *testing.T, task string) map[string]wire {
	t.Helper()
	out := map[string]wire{}
	for binding, body := range map[string]string{"JSONRPC": `{"jsonrpc":"2.0","id":"1","result":` + task + `}`, "HTTP+JSON": task} {
		face := &foreignInterface{URL: "http://agent.example/a2a", ProtocolBinding: binding, ProtocolVersion: "1.0"}
		w, err := wireTo(face, false, &http.Client{Transport: bounded{cannedAnswer{body, "application/json"}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		out[binding] = w
	}
	return out
}

func taskWith(data string) string {
	return `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"metadata":{"about":` + data +
		`},"artifacts":[{"artifactId":"output","parts":[{"data":` + data + `,"metadata":{"about":` + data + `}}]}]}`
}

// TestValuesOfForeignAgents: what an agent of others answers over HTTP is recorded to the last digit.
// Half of a character is U+FFFD, as of models; an answer with a member twice is refused by name.
func TestValuesOfForeignAgents(t *testing.T) {
	t.Parallel()
	for _, v := range jsonvalues.All {
		for binding, w := range wiresTo(t, taskWith(v.Text)) {
			pb, err := w.get(t.Context(), nil, &a2apb.GetTaskRequest{Id: "t"})
			if strings.HasPrefix(v.Name, "half a character") {
				if task, fault := taskOf(pb); err != nil || fault != nil || !strings.Contains(string(task.Output[0].Data), "\uFFFD") {
					t.Errorf("%s over %s: %+v, %v, %v", v.Name, binding, task, err, fault)
				}
				continue
			}
			if v.Refused != "" {
				if fault := faultOf(err); err == nil || fault.Code != "AGENT_PROTOCOL" || !strings.Contains(fault.Message, v.Refused) {
					t.Errorf("%s over %s: %v, %v, want %q", v.Name, binding, pb, err, v.Refused)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s over %s: %v", v.Name, binding, err)
				continue
			}
			task, err := taskOf(pb)
			if err != nil || task.Output[0].Kind != machine.PartJSON || !jsonvalues.Equal(string(task.Output[0].Data), v.Text) ||
				!jsonvalues.Equal(string(task.Output[0].Metadata), `{"about":`+v.Text+`}`) {
				t.Errorf("%s over %s: %+v, %v", v.Name, binding, task, err)
			}
		}
	}
}

// TestNamesOfForeignAgents: a task is read by the protocol's own letters.
func TestNamesOfForeignAgents(t *testing.T) {
	t.Parallel()
	body := `{"id":"t","ID":"other","contextId":"c","status":{"state":"TASK_STATE_COMPLETED","State":"TASK_STATE_FAILED"},` +
		`"artifacts":[{"artifactId":"output","Name":"x","parts":[{"text":"good","Text":"bad"}]}],"Artifacts":[{"artifactId":"output","parts":[{"text":"bad"}]}]}`
	for binding, w := range wiresTo(t, body) {
		pb, err := w.get(t.Context(), nil, &a2apb.GetTaskRequest{Id: "t"})
		if err != nil {
			t.Errorf("over %s: %v", binding, err)
			continue
		}
		task, err := taskOf(pb)
		if err != nil || task.ID != "t" || task.State != machine.AgentCompleted || len(task.Output) != 1 || task.Output[0].Text != "good" {
			t.Errorf("over %s: %+v, %v", binding, task, err)
		}
	}
}

// TestDoublesOfForeignAgents: over gRPC numbers are doubles, and the very double is recorded.
func TestDoublesOfForeignAgents(t *testing.T) {
	t.Parallel()
	for double, want := range map[float64]string{1 << 60: "1152921504606846976", 1e22: "1e22", 1e23: "99999999999999991611392", -1 << 53: "-9007199254740992", 0.1: "0.1", 5e-324: "5e-324"} {
		task, err := taskOf(&a2apb.Task{Id: "t", Status: &a2apb.TaskStatus{State: a2apb.TaskState_TASK_STATE_COMPLETED}, Artifacts: []*a2apb.Artifact{
			{ArtifactId: "output", Parts: []*a2apb.Part{{Content: &a2apb.Part_Data{Data: structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(double)}})}}}},
		}})
		if err != nil || !jsonvalues.Equal(string(task.Output[0].Data), "["+want+"]") {
			t.Errorf("%v is %s, %v", double, task.Output[0].Data, err)
		}
	}
}
