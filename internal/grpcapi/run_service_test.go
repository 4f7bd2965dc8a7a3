package grpcapi

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestRunToItsEnd drives one run through every writing RPC that moves it.
func TestRunToItsEnd(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	started := r.start(ctx)
	run := started.GetRun()
	if run.GetStatus() != pawlv1.RunStatus_RUN_STATUS_RUNNING || run.GetState() != "work" || run.GetNamespace() != "default" ||
		run.GetVisits()["work"] != 1 || run.GetSeq() != 1 || !slices.Equal(run.GetAllowedEvents(), []string{"Again", "Ask", "Check", "Finish", "Share"}) {
		t.Fatalf("run %v", run)
	}
	first := started.GetRecord()
	if first.GetSeq() != 1 || first.GetCause() != pawlv1.Cause_CAUSE_ENTRY || first.GetTransition().GetToState() != "work" ||
		first.GetPrincipal() != "anonymous" || len(first.GetHash()) != 32 || first.GetCursor() == "" {
		t.Fatalf("record %v", first)
	}
	turn, err := r.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: run.GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	moved := r.emit(ctx, turn.GetTurn(), "Check", text("note", "first"), jsonValue("log", ` {"n": 1} `))
	if moved.GetState() != "check" || moved.GetTransition().GetTransition().GetEvent() != "Check" || moved.GetEnded() != nil ||
		moved.GetTurn().GetTurnSeq() != moved.GetSeq() || moved.GetTurn().GetToken() == "" {
		t.Fatalf("EmitEvent %v", moved)
	}
	artifacts := moved.GetTransition().GetTransition().GetArtifactsWritten()
	if len(artifacts) != 2 || artifacts[0].GetValue().GetText() != "first" || artifacts[1].GetValue().GetJson() != `{"n":1}` ||
		artifacts[0].GetValue().GetMediaType() != "text/plain" {
		t.Fatalf("written %v", artifacts)
	}
	back := r.emit(ctx, moved.GetTurn(), "Back")
	done := r.emit(ctx, back.GetTurn(), "Finish", jsonValue("log", `[2,3]`))
	completed, err := r.runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
		RunId: run.GetRunId(), TurnSeq: done.GetTurn().GetTurnSeq(), Attempt: done.GetTurn().GetAttempt(), TurnToken: done.GetTurn().GetToken(),
		Output: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "shipped"}}}, Usage: &pawlv1.Usage{InputTokens: 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := completed.GetEnded().GetEnded()
	if completed.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || ended.GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED || completed.GetTurn() != nil {
		t.Fatalf("CompleteTurn %v", completed)
	}
	if got := completed.GetRecord().GetTurnCompleted(); got.GetOutput()[0].GetText() != "shipped" || got.GetUsage().GetInputTokens() != 7 {
		t.Fatalf("TurnCompleted %v", got)
	}
	final := ended.GetFinalArtifacts()
	if len(final) != 2 || final[0].GetHead().GetName() != "log" || final[0].GetValue().GetJson() != `[{"n":1},2,3]` ||
		final[0].GetHead().GetWrites() != 2 || final[1].GetValue().GetText() != "first" {
		t.Fatalf("final artifacts %v", final)
	}
}

func TestGetTurn(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	started := r.start(ctx)
	turn, err := r.runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: started.GetRun().GetRunId()})
	if err != nil {
		t.Fatal(err)
	}
	if turn.GetPrompt() != "worker" || turn.GetSystemPrompt() != "Goal: ship. Note: " || turn.GetTerminal() || turn.GetTurn().GetVisit() != 1 {
		t.Fatalf("turn %v", turn)
	}
	if turn.GetVariablesJson() != `{"goal":"ship","style":"brief"}` {
		t.Fatalf("variables %s", turn.GetVariablesJson())
	}
	if len(turn.GetTools()) != 2 || turn.GetTools()[0].GetName() != "run_tests" || turn.GetTools()[0].GetParametersJson() == "" {
		t.Fatalf("tools %v", turn.GetTools())
	}
	slots := turn.GetArtifactSlots()
	if len(slots) != 3 || slots[1].GetName() != "log" || slots[1].GetMode() != pawlv1.ArtifactMode_ARTIFACT_MODE_APPEND || slots[2].GetDescription() != "A note" {
		t.Fatalf("slots %v", slots)
	}
	// A newer token fences the older one.
	stale := started.GetTurn()
	if _, err := r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: stale.GetRunId(), Event: "Again", TurnToken: stale.GetToken() + "x"}); err == nil {
		t.Fatal("a made-up token was taken")
	}
	r.emit(ctx, turn.GetTurn(), "Again")
}

func TestRepeatsAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	req := startRequest()
	req.RequestId = "start-1"
	first, err := r.runs.StartRun(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	again, err := r.runs.StartRun(ctx, req)
	if err != nil || !again.GetDuplicate() || again.GetRun().GetRunId() != first.GetRun().GetRunId() {
		t.Fatalf("%v, %v", again, err)
	}
	req.VariablesJson = `{"goal":"other"}`
	_, err = r.runs.StartRun(ctx, req)
	wantError(t, err, codes.AlreadyExists, "ID_REUSED")

	emit := &pawlv1.EmitEventRequest{
		RunId: first.GetRun().GetRunId(), Event: "Again", EventId: "e1", TurnToken: first.GetTurn().GetToken(),
		Artifacts: []*pawlv1.ArtifactWrite{text("note", "x")},
	}
	one, err := r.runs.EmitEvent(ctx, emit)
	if err != nil {
		t.Fatal(err)
	}
	two, err := r.runs.EmitEvent(ctx, emit)
	if err != nil || !two.GetDuplicate() || !proto.Equal(one.GetTransition(), two.GetTransition()) {
		t.Fatalf("%v, %v; first %v", two, err, one)
	}
	emit.Artifacts[0] = text("note", "y")
	_, err = r.runs.EmitEvent(ctx, emit)
	wantError(t, err, codes.AlreadyExists, "ID_REUSED")
}

func TestInputsAndArtifacts(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	started := r.start(ctx)
	run, turn := started.GetRun().GetRunId(), started.GetTurn()
	parts := []*pawlv1.Part{
		{Content: &pawlv1.Part_Text{Text: "look"}, MetadataJson: `{"a": 1}`},
		{Content: &pawlv1.Part_Json{Json: ` [1, 2] `}},
		{Content: &pawlv1.Part_Data{Data: []byte{0, 255}}, MediaType: "image/png", Filename: "a.png"},
		{Content: &pawlv1.Part_Uri{Uri: "https://example.com/a"}},
	}
	sent, err := r.runs.SendInput(ctx, &pawlv1.SendInputRequest{RunId: run, Parts: parts, MessageId: "m1"})
	if err != nil || !sent.GetQueued() {
		t.Fatalf("SendInput %v, %v", sent, err)
	}
	got := sent.GetRecord().GetInputReceived().GetParts()
	if len(got) != 4 || got[0].GetMetadataJson() != `{"a":1}` || got[1].GetJson() != `[1,2]` || got[2].GetFilename() != "a.png" || got[3].GetUri() != "https://example.com/a" {
		t.Fatalf("parts %v", got)
	}
	set, err := r.runs.SetArtifacts(ctx, &pawlv1.SetArtifactsRequest{
		RunId: run, TurnToken: turn.GetToken(), WriteId: "w1",
		Artifacts: []*pawlv1.ArtifactWrite{{Name: "blob", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Data{Data: []byte{1, 2}}}}},
	})
	if err != nil || string(set.GetRecord().GetArtifactsSet().GetArtifactsWritten()[0].GetValue().GetData()) != "\x01\x02" {
		t.Fatalf("SetArtifacts %v, %v", set, err)
	}
	view, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run, IncludeArtifacts: true})
	if err != nil || view.GetRun().GetQueuedInputs() != 1 || len(view.GetArtifacts()) != 1 || view.GetArtifacts()[0].GetHead().GetBytes() != 2 {
		t.Fatalf("GetRun %v, %v", view, err)
	}
}

func TestPauseResumeCancelWait(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	started := r.start(ctx)
	run := started.GetRun().GetRunId()
	paused, err := r.runs.PauseRun(ctx, &pawlv1.PauseRunRequest{RunId: run, Note: "lunch"})
	if err != nil || paused.GetRecord().GetPaused().GetNote() != "lunch" {
		t.Fatalf("PauseRun %v, %v", paused, err)
	}
	if again, err := r.runs.PauseRun(ctx, &pawlv1.PauseRunRequest{RunId: run}); err != nil || again.GetRecord() != nil {
		t.Fatalf("PauseRun of a paused run: %v, %v", again, err)
	}
	_, err = r.runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: run, Event: "Again", TurnToken: started.GetTurn().GetToken()})
	wantError(t, err, codes.FailedPrecondition, "PAUSED")
	if _, err := r.runs.ResumeRun(ctx, &pawlv1.ResumeRunRequest{RunId: run}); err != nil {
		t.Fatal(err)
	}
	waited, err := r.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run, Timeout: durationpb.New(time.Millisecond)})
	if err != nil || !waited.GetTimedOut() || waited.GetRun().GetRunId() != run {
		t.Fatalf("WaitRun %v, %v", waited, err)
	}
	ended := make(chan *pawlv1.WaitRunResponse, 1)
	go func() {
		got, _ := r.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{RunId: run})
		ended <- got
	}()
	cancelled, err := r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run, Note: "enough"})
	if err != nil || cancelled.GetEnded().GetEnded().GetStatus() != pawlv1.RunStatus_RUN_STATUS_CANCELLED {
		t.Fatalf("CancelRun %v, %v", cancelled, err)
	}
	if got := <-ended; got.GetTimedOut() || got.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_CANCELLED {
		t.Fatalf("WaitRun %v", got)
	}
	_, err = r.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{RunId: run})
	wantError(t, err, codes.FailedPrecondition, "RUN_TERMINAL")
}

func TestWaitUntilWaiting(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	started := r.start(ctx)
	r.emit(ctx, started.GetTurn(), "Ask")
	got, err := r.runs.WaitRun(ctx, &pawlv1.WaitRunRequest{
		RunId: started.GetRun().GetRunId(), Until: pawlv1.WaitUntil_WAIT_UNTIL_WAITING,
	})
	if err != nil || got.GetTimedOut() || got.GetRun().GetStatus() != pawlv1.RunStatus_RUN_STATUS_WAITING {
		t.Fatalf("WaitRun %v, %v", got, err)
	}
}

func TestFailAndSuspend(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	turn := r.start(ctx).GetTurn()
	failed, err := r.runs.FailTurn(ctx, &pawlv1.FailTurnRequest{
		RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: 1, TurnToken: turn.GetToken(),
		Error: &pawlv1.Fault{Code: "MODEL_DOWN", Message: "503"}, Retryable: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	record := failed.GetRecord().GetTurnFailed()
	if record.GetNext() != 2 || record.GetNotBefore() == nil || record.GetError().GetCode() != "MODEL_DOWN" || failed.GetTurn().GetAttempt() != 2 {
		t.Fatalf("FailTurn %v", failed)
	}
	other := r.startOnly(ctx).GetTurn()
	_, err = r.runs.SuspendTurn(ctx, &pawlv1.SuspendTurnRequest{
		RunId: other.GetRunId(), TurnSeq: other.GetTurnSeq(), Attempt: 1, TurnToken: other.GetToken(),
	})
	wantError(t, err, codes.FailedPrecondition, "NOTHING_PENDING")
	step := r.requestStep(ctx, other, "run_tests", `{"path": "."}`)
	suspended, err := r.runs.SuspendTurn(ctx, &pawlv1.SuspendTurnRequest{
		RunId: other.GetRunId(), TurnSeq: other.GetTurnSeq(), Attempt: 1, TurnToken: other.GetToken(),
	})
	if err != nil || !slices.Equal(suspended.GetRecord().GetTurnSuspended().GetPending(), []uint32{step.GetStep()}) {
		t.Fatalf("SuspendTurn %v, %v", suspended, err)
	}
}
