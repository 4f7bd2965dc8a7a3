package server

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestDelegationsStayInTheirNamespace: agents are served in the default namespace, so
// that a run of another one has none, rather than one that is not in it.
func TestDelegationsStayInTheirNamespace(t *testing.T) {
	t.Parallel()
	c := settings(t)
	c.Packs, c.AllowTools, c.Namespaces = []string{packAt(t)}, []string{"*"}, []string{"red"}
	s := serveToEnd(t, c)
	conn, err := grpc.NewClient(s.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ctx, runs := t.Context(), pawlv1.NewRunServiceClient(conn)
	if _, err := pawlv1.NewPackServiceClient(conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Namespace: "red", Content: []byte(teamPack)}); err != nil {
		t.Fatal(err)
	}
	started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Namespace: "red", Pack: "team", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		t.Fatal(err)
	}
	turn := started.GetTurn()
	if _, err := runs.RequestStep(ctx, &pawlv1.RequestStepRequest{
		Namespace: "red", RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
		Requests: []*pawlv1.StepRequest{{Key: "1", Tool: "helper", PayloadJson: `{"message": "easy"}`}},
	}); err != nil {
		t.Fatal(err)
	}
	stream, err := runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{
		Namespace: "red", RunId: turn.GetRunId(), Follow: true, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_STEP_DELEGATED},
	})
	if err != nil {
		t.Fatal(err)
	}
	child := ""
	for child == "" {
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		child = got.GetRecord().GetStepDelegated().GetRemote().GetTaskId()
	}
	if run, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: "red", RunId: child}); err != nil || run.GetRun().GetParent().GetRunId() != turn.GetRunId() {
		t.Errorf("the child %v, %v", run, err)
	}
	all, err := runs.ListRuns(ctx, &pawlv1.ListRunsRequest{})
	if err != nil || len(all.GetRuns()) != 0 {
		t.Errorf("the default namespace has %v, %v", all, err)
	}
}
