package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

// TestAgentsWithoutCode checks that a sidecar with a model executes A2A messages and delegations to
// members, without any other executor. Workers execute them where the operator configures this.
func TestAgentsWithoutCode(t *testing.T) {
	t.Parallel()
	server := endpoint.New(t, func(n int, asked endpoint.Request) endpoint.Answer {
		said, _ := json.Marshal(asked.Body["messages"])
		switch {
		case strings.Contains(string(said), "Help."):
			return endpoint.Answer{Text: "It is four."}
		case n == 0:
			return endpoint.Answer{Calls: []endpoint.Call{{ID: "c", Name: "helper", Arguments: `{"message":"What is two and two?"}`}}}
		}
		return endpoint.Answer{Text: fmt.Sprintf("Heard: %v", strings.Contains(string(said), "It is four."))}
	})
	s := newSidecar(t, "--pack", "testdata/team.pack.yaml", "--allow-tool", "*", "--model", endpointModels["chat"](server))
	s.start()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "1.0"), patience)
	defer cancel()
	client := a2apb.NewA2AServiceClient(s.dial())
	send := func() *a2apb.SendMessageRequest {
		return &a2apb.SendMessageRequest{Tenant: "team/lead", Message: &a2apb.Message{
			MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "Two and two?"}}},
		}}
	}
	got, err := client.SendMessage(ctx, send())
	if err != nil || got.GetTask().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(fmt.Sprint(got), "Heard: true") {
		t.Fatalf("%v, %v", got, err)
	}
	page, err := s.runs().ListRuns(ctx, &pawlv1.ListRunsRequest{})
	if err != nil || len(page.GetRuns()) != 2 {
		t.Fatalf("%v, %v", page, err)
	}
	for _, run := range page.GetRuns() {
		if run.GetExecution() != pawlv1.Execution_EXECUTION_SIDECAR {
			t.Errorf("%s is executed by %s", run.GetRunId(), run.GetExecution())
		}
	}
	s.stop()
	s.args = append(s.args, "--a2a-execution", "WORKERS")
	s.start()
	again := send()
	again.Message.MessageId, again.Configuration = "m2", &a2apb.SendMessageConfiguration{ReturnImmediately: true}
	if got, err = client.SendMessage(ctx, again); err != nil {
		t.Fatal(err)
	}
	run, err := s.runs().GetRun(ctx, &pawlv1.GetRunRequest{RunId: got.GetTask().GetId()})
	if err != nil || run.GetRun().GetExecution() != pawlv1.Execution_EXECUTION_WORKERS {
		t.Errorf("%v, %v", run, err)
	}
}
