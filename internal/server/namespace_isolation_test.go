package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// tenant calls as a principal that is bound to one namespace.
type tenant struct {
	ctx   context.Context // has the principal's token
	packs pawlv1.PackServiceClient
	runs  pawlv1.RunServiceClient
	hooks pawlv1.DeliveryServiceClient
	work  pawlv1.WorkerServiceClient
	agent a2apb.A2AServiceClient
}

func (r *operationsRig) tenant(key string) *tenant {
	return &tenant{
		ctx:   metadata.AppendToOutgoingContext(r.t.Context(), "authorization", "Bearer "+key, "a2a-version", "1.0"),
		packs: pawlv1.NewPackServiceClient(r.conn), runs: pawlv1.NewRunServiceClient(r.conn),
		hooks: pawlv1.NewDeliveryServiceClient(r.conn), work: pawlv1.NewWorkerServiceClient(r.conn), agent: a2apb.NewA2AServiceClient(r.conn),
	}
}

// tenantData is what one namespace has, as another one could come to know it.
type tenantData struct{ run, task, digest, blob, cursor, token string }

// settle makes one of everything in the principal's namespace. Its requests name no namespace.
func (x *tenant) settle(t *testing.T, words string) tenantData {
	t.Helper()
	pack, err := x.packs.RegisterPack(x.ctx, &pawlv1.RegisterPackRequest{Content: []byte(strings.NewReplacer("Lead.", words, `"id": "team"`, `"id": "own"`).Replace(teamPack))})
	if err != nil {
		t.Fatal(err)
	}
	run, err := x.runs.StartRun(x.ctx, &pawlv1.StartRunRequest{Pack: "own", Execution: pawlv1.Execution_EXECUTION_CALLER, RequestId: "the-same"})
	if err != nil || run.GetDuplicate() {
		t.Fatalf("StartRun %v, %v", run, err)
	}
	own := tenantData{
		run: run.GetRun().GetRunId(), token: run.GetTurn().GetToken(), digest: pack.GetPack().GetDigest(), cursor: run.GetRecord().GetCursor(),
	}
	task, err := x.agent.SendMessage(x.ctx, &a2apb.SendMessageRequest{
		Tenant: ownHelper, Message: &a2apb.Message{MessageId: "the-same", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}},
		Configuration: &a2apb.SendMessageConfiguration{ReturnImmediately: true, TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{
			Id: "push", Url: "https://example.com/" + words,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	own.task = task.GetTask().GetId()
	put, err := x.runs.PutBlob(x.ctx)
	if err == nil {
		err = put.Send(&pawlv1.PutBlobRequest{UploadId: "up", MediaType: "text/plain", Data: []byte(words)})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := put.CloseAndRecv(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(words))
	own.blob = "sha256:" + hex.EncodeToString(sum[:])
	if _, err := x.hooks.PutWebhook(x.ctx, &pawlv1.PutWebhookRequest{WebhookId: "hook", Url: "https://example.com/" + words, Secret: hookSecret()}); err != nil {
		t.Fatal(err)
	}
	if _, err := x.read(own.run, "", "reader"); err != nil {
		t.Fatal(err)
	}
	return own
}

// read streams the records of a run to their end.
func (x *tenant) read(run, cursor, consumer string) (n int, err error) {
	if consumer != "" {
		run = ""
	}
	stream, err := x.runs.StreamTransitions(x.ctx, &pawlv1.StreamTransitionsRequest{RunId: run, AfterCursor: cursor, Consumer: consumer})
	for err == nil {
		if _, err = stream.Recv(); err == nil {
			n++
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// ownHelper names an agent without a namespace, so that of the caller applies.
const ownHelper = "own/helper"

// asksAgents makes all calls about a task.
func (x *tenant) asksAgents(b tenantData, note func(string, error)) {
	_, err := x.agent.GetTask(x.ctx, &a2apb.GetTaskRequest{Tenant: ownHelper, Id: b.task})
	note("GetTask", err)
	_, err = x.agent.CancelTask(x.ctx, &a2apb.CancelTaskRequest{Tenant: ownHelper, Id: b.task})
	note("CancelTask", err)
	_, err = x.agent.ListTaskPushNotificationConfigs(x.ctx, &a2apb.ListTaskPushNotificationConfigsRequest{Tenant: ownHelper, TaskId: b.task})
	note("ListTaskPushNotificationConfigs", err)
	_, err = x.agent.DeleteTaskPushNotificationConfig(x.ctx, &a2apb.DeleteTaskPushNotificationConfigRequest{Tenant: ownHelper, TaskId: b.task, Id: "push"})
	note("DeleteTaskPushNotificationConfig", err)
	_, err = x.agent.SendMessage(x.ctx, &a2apb.SendMessageRequest{Tenant: ownHelper, Message: &a2apb.Message{
		MessageId: "more", TaskId: b.task, Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "more"}}},
	}})
	note("SendMessage", err)
	events, err := x.agent.SubscribeToTask(x.ctx, &a2apb.SubscribeToTaskRequest{Tenant: ownHelper, Id: b.task})
	if err == nil {
		_, err = events.Recv()
	}
	note("SubscribeToTask", err)
}

// callAll makes all calls about the data, and returns the error of each.
func (x *tenant) callAll(b tenantData) map[string]error {
	out := map[string]error{}
	note := func(name string, err error) { out[name] = err }
	_, err := x.runs.GetRun(x.ctx, &pawlv1.GetRunRequest{RunId: b.run})
	note("GetRun", err)
	_, err = x.runs.GetTurn(x.ctx, &pawlv1.GetTurnRequest{RunId: b.run})
	note("GetTurn", err)
	_, err = x.runs.ShowTurn(x.ctx, &pawlv1.ShowTurnRequest{RunId: b.run, TurnSeq: 1})
	note("ShowTurn", err)
	_, err = x.runs.EmitEvent(x.ctx, &pawlv1.EmitEventRequest{RunId: b.run, Event: "Done", TurnToken: b.token})
	note("EmitEvent", err)
	_, err = x.runs.CancelRun(x.ctx, &pawlv1.CancelRunRequest{RunId: b.run})
	note("CancelRun", err)
	_, err = x.runs.VerifyRun(x.ctx, &pawlv1.VerifyRunRequest{RunId: b.run})
	note("VerifyRun", err)
	_, err = x.runs.ForkRun(x.ctx, &pawlv1.ForkRunRequest{RunId: b.run, AtSeq: 1, Execution: pawlv1.Execution_EXECUTION_CALLER})
	note("ForkRun", err)
	_, err = x.runs.WaitRun(x.ctx, &pawlv1.WaitRunRequest{RunId: b.run})
	note("WaitRun", err)
	_, err = x.runs.ListTransitions(x.ctx, &pawlv1.ListTransitionsRequest{RunId: b.run})
	note("ListTransitions", err)
	_, err = x.read(b.run, "", "")
	note("StreamTransitions", err)
	file, err := x.runs.ExportRun(x.ctx, &pawlv1.ExportRunRequest{RunId: b.run})
	if err == nil {
		_, err = file.Recv()
	}
	note("ExportRun", err)
	blob, err := x.runs.GetBlob(x.ctx, &pawlv1.GetBlobRequest{BlobRef: b.blob})
	if err == nil {
		_, err = blob.Recv()
	}
	note("GetBlob", err)
	_, err = x.packs.GetPack(x.ctx, &pawlv1.GetPackRequest{Pack: b.digest})
	note("GetPack", err)
	_, err = x.runs.StartRun(x.ctx, &pawlv1.StartRunRequest{Pack: b.digest, Execution: pawlv1.Execution_EXECUTION_CALLER})
	note("StartRun", err)
	x.asksAgents(b, note)
	return out
}

// noData names things that never existed.
var noData = tenantData{
	run: "01ARZ3NDEKTSV4RRFFQ69G5FAV", task: "01ARZ3NDEKTSV4RRFFQ69G5FAV", token: "AAAAAAAAAAAAAAAAAAAAAA",
	digest: "sha256:" + strings.Repeat("ab", sha256.Size), blob: "sha256:" + strings.Repeat("ab", sha256.Size),
}

// TestNamespacesAreApart: two principals with every right, each bound to a namespace, make the same
// things under the same names. Neither can find, move or count what the other has. The answer about
// a thing of the other is the same as about a thing that never existed.
func TestNamespacesAreApart(t *testing.T) {
	t.Parallel()
	r := newOperationsRig(t)
	red, free := r.tenant(keyOf("admin", "red")), r.tenant(keyOf("admin", "home"))
	own, other := red.settle(t, "Red"), free.settle(t, "Default")
	if own.digest == other.digest || own.run == other.run {
		t.Fatalf("the namespaces share %v and %v", own, other)
	}
	unknown := red.callAll(noData)
	for name, err := range red.callAll(other) {
		got, want := status.Convert(err), status.Convert(unknown[name])
		names := strings.NewReplacer(other.run, noData.run, other.task, noData.task, other.digest, noData.digest, other.blob, noData.blob)
		if err == nil || got.Code() != want.Code() || names.Replace(got.Message()) != want.Message() || len(got.Details()) != len(want.Details()) {
			t.Errorf("%s of another's: %v; of what never was: %v", name, got, want)
		}
	}
	for _, x := range []*tenant{red, free} {
		x.hasItsOwn(t)
	}
	// A cursor of another namespace is a cursor in the caller's own namespace, and shows nothing of the
	// other. If several sidecars share the store, the cursor is of another partition and is refused.
	if n, err := red.read("", other.cursor, ""); err != nil && !strings.Contains(err.Error(), "CURSOR_FOREIGN") || n > 1 {
		t.Errorf("behind another's position: %d records, %v", n, err)
	}
	if _, err := free.runs.GetRun(free.ctx, &pawlv1.GetRunRequest{RunId: other.run}); err != nil {
		t.Errorf("what another tried changed the run: %v", err)
	}
}

// hasItsOwn checks that there is one of everything.
func (x *tenant) hasItsOwn(t *testing.T) {
	t.Helper()
	runs, err := x.runs.ListRuns(x.ctx, &pawlv1.ListRunsRequest{})
	if err != nil || len(runs.GetRuns()) != 2 {
		t.Errorf("runs %v, %v", runs, err)
	}
	counts, err := x.runs.CountRuns(x.ctx, &pawlv1.CountRunsRequest{})
	total := int64(0)
	for _, c := range counts.GetCounts() {
		total += c.GetRuns()
	}
	if err != nil || total != 2 {
		t.Errorf("counts %v, %v", counts, err)
	}
	tasks, err := x.agent.ListTasks(x.ctx, &a2apb.ListTasksRequest{Tenant: ownHelper})
	if err != nil || len(tasks.GetTasks()) != 1 {
		t.Errorf("tasks %v, %v", tasks, err)
	}
	pushes, err := x.agent.ListTaskPushNotificationConfigs(x.ctx, &a2apb.ListTaskPushNotificationConfigsRequest{Tenant: ownHelper, TaskId: tasks.GetTasks()[0].GetId()})
	if err != nil || len(pushes.GetConfigs()) != 1 {
		t.Errorf("pushes %v, %v", pushes, err)
	}
	hooks, err := x.hooks.ListWebhooks(x.ctx, &pawlv1.ListWebhooksRequest{})
	if err != nil || len(hooks.GetWebhooks()) != 1 {
		t.Errorf("webhooks %v, %v", hooks, err)
	}
	readers, err := x.hooks.ListConsumers(x.ctx, &pawlv1.ListConsumersRequest{})
	if err != nil || len(readers.GetConsumers()) > 1 {
		t.Errorf("consumers %v, %v", readers, err)
	}
	caller, err := x.runs.GetCaller(x.ctx, &pawlv1.GetCallerRequest{})
	if err != nil || len(caller.GetNamespaces()) != 1 {
		t.Errorf("caller %v, %v", caller, err)
	}
	if _, err := x.work.ListWorkers(x.ctx, &pawlv1.ListWorkersRequest{}); err != nil {
		t.Errorf("workers: %v", err)
	}
}
