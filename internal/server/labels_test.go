package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestOwnLabels: no caller can give a run the labels by which the sidecar says what
// started it, over any interface.
func TestOwnLabels(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.HTTP, c.Packs = "127.0.0.1:0", []string{packWith(t, bankPack())}
	s := serveToEnd(t, c)
	conn := dial(t, s.ready.GRPC)
	runs, agents := pawlv1.NewRunServiceClient(conn), a2apb.NewA2AServiceClient(conn)
	ctx := t.Context()
	refused := func(door string, err error) {
		t.Helper()
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(fmt.Sprint(status.Convert(err).Details()), "LABEL_RESERVED") {
			t.Errorf("%s: %v", door, err)
		}
	}
	own := map[string]string{"pawl.schedule": "nightly", "team": "blue"}
	start := &pawlv1.StartRunRequest{Pack: "bank", Execution: pawlv1.Execution_EXECUTION_WORKERS, Labels: own}
	_, err := runs.StartRun(ctx, start)
	refused("StartRun", err)
	start.Labels = map[string]string{"team": "blue"}
	begun, err := runs.StartRun(ctx, start)
	if err != nil {
		t.Fatal(err)
	}
	_, err = runs.ForkRun(ctx, &pawlv1.ForkRunRequest{RunId: begun.GetRun().GetRunId(), AtSeq: 1, Execution: pawlv1.Execution_EXECUTION_WORKERS, Labels: own})
	refused("ForkRun", err)

	resp, err := http.Post("http://"+s.ready.HTTP+"/v1/runs", "application/json", strings.NewReader(`{"pack":"bank","execution":"EXECUTION_WORKERS","labels":{"pawl.instant":"x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), "LABEL_RESERVED") || !strings.Contains(string(body), "labels[pawl.instant]") {
		t.Errorf("gateway: %d %s", resp.StatusCode, body)
	}

	labels, err := structpb.NewStruct(map[string]any{"labels": map[string]any{"pawl.schedule": "x"}, "pawl.schedule": "x"})
	if err != nil {
		t.Fatal(err)
	}
	task, err := agents.SendMessage(metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0"), &a2apb.SendMessageRequest{
		Tenant: "bank/teller_internal", Metadata: labels, Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true},
		Message: &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Metadata: labels, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "pay"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: task.GetTask().GetId()})
	if err != nil || len(got.GetRun().GetLabels()) != 0 {
		t.Errorf("A2A: %v, %v", got.GetRun().GetLabels(), err)
	}
}
