package grpcapi

import (
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/services"
)

// TestWork: a worker receives the turns of a run one after the other until the run ends. Each has the rendered
// prompt and a lease.
func TestWork(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	h := r.registerWorker(ctx, registration("w1"))
	if h.registered.GetHeartbeatInterval().AsDuration() <= 0 || h.registered.GetMaxMessageBytes() == 0 || h.registered.GetTurnCapacity() != 4 {
		t.Fatalf("registered %v", h.registered)
	}
	run := r.startWorkers(ctx)
	for _, event := range []string{"Again", "Again", "Finish"} {
		a := h.turn()
		turn := a.GetTurn()
		if turn.GetSystemPrompt() != "Goal: ship. Note: " || turn.GetTurn().GetToken() != a.GetLease().GetToken() || turn.GetSettingsJson() == "" ||
			a.GetLease().GetDuration().AsDuration() != time.Minute || a.GetLease().GetDelivery() != 1 {
			t.Fatalf("assignment %v", a)
		}
		got, err := h.ask(completion(a, event))
		if err != nil || got.GetCompleteTurn().GetTransition() == nil || got.GetCompleteTurn().GetTurn().GetToken() != "" {
			t.Fatalf("completion %v, %v", got, err)
		}
	}
	got, err := h.ask(completion(h.turn(), ""))
	if err != nil || got.GetCompleteTurn().GetEnded().GetEnded().GetStatus() != pawlv1.RunStatus_RUN_STATUS_COMPLETED {
		t.Fatalf("the last completion: %v, %v", got, err)
	}
	list, err := r.runs.ListTransitions(ctx, &pawlv1.ListTransitionsRequest{
		RunId: run.GetRun().GetRunId(), Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_TURN_ASSIGNED},
	})
	if err != nil || len(list.GetRecords()) != 4 || list.GetRecords()[0].GetTurnAssigned().GetAssigned().GetWorker() != "w1" {
		t.Fatalf("assigned %v, %v", list, err)
	}
	if err := h.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := h.end(); err != io.EOF {
		t.Fatalf("the stream ended with %v", err)
	}
}

// TestWorkSteps: the steps of a turn go to the worker that serves their tool. The answers go to the worker of
// the turn.
func TestWorkSteps(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	model := r.registerWorker(ctx, &pawlv1.WorkerRegistration{WorkerId: "model", Prompts: []string{"worker"}, TurnCapacity: 1})
	tools := r.registerWorker(ctx, &pawlv1.WorkerRegistration{WorkerId: "tools", Packs: []string{"loop@1.0.0"}, Tools: []string{"run_tests"}, StepCapacity: 1})
	run := r.startWorkers(ctx)
	a := model.turn()
	got, err := model.ask(stepRequest(a, "run_tests", `{"path":"a"}`, `{"path":"b"}`))
	if err != nil || len(got.GetRequestStep().GetOutcomes()) != 2 {
		t.Fatalf("requested %v, %v", got, err)
	}
	for i, path := range []string{"a", "b"} {
		step := tools.step()
		if step.GetPayloadJson() != `{"path":"`+path+`"}` || step.GetTurnSeq() != a.GetLease().GetTurnSeq() || step.GetTimeout().AsDuration() != 300*time.Second {
			t.Fatalf("step %v", step)
		}
		answered, err := tools.ask(stepAnswer(step, `{"passed":true}`))
		if err != nil || answered.GetResolveStep().GetRecord().GetStepResolved().GetWorker() != "tools" {
			t.Fatalf("answer %d: %v, %v", i, answered, err)
		}
		again, err := tools.ask(stepAnswer(step, `{"passed":true}`))
		if err != nil || again.GetResolveStep().GetDisposition() != pawlv1.Disposition_DISPOSITION_IGNORED_DUPLICATE {
			t.Fatalf("the same answer again: %v, %v", again, err)
		}
	}
	model.until("answers", func() bool { return len(model.answers) == 2 })
	// Each commit sends its own answers. Their order is not guaranteed.
	told := map[uint32]string{}
	for _, answers := range model.answers {
		for _, s := range answers.GetSteps() {
			told[s.GetStep()] = s.GetPayloadJson() + s.GetResultJson()
		}
	}
	if want := map[uint32]string{1: `{"path":"a"}{"passed":true}`, 2: `{"path":"b"}{"passed":true}`}; !maps.Equal(told, want) {
		t.Fatalf("told %v, want %v", told, want)
	}
	replay, err := model.ask(stepRequest(a, "run_tests", `{"path":"c"}`))
	if err != nil || replay.GetRequestStep().GetOutcomes()[0].GetKey() != "3" {
		t.Fatalf("a third step: %v, %v", replay, err)
	}
	if step := tools.step(); step.GetPayloadJson() != `{"path":"c"}` {
		t.Fatalf("step %v", step)
	}
	if _, err := model.ask(completion(a, "Finish")); err != nil {
		t.Fatal(err)
	}
	tools.until("revocation", func() bool { return len(tools.revoked) > 0 })
	if run.GetRun().GetRunId() == "" {
		t.Fatal("no run")
	}
}

// TestSuspend: a turn that only waits for its steps is released. It comes back with the answers, at the same
// attempt.
func TestSuspend(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	r.startWorkers(ctx)
	h := r.registerWorker(ctx, registration("w"))
	a := h.turn()
	if _, err := h.ask(stepRequest(a, "run_tests", `{"path":"a"}`)); err != nil {
		t.Fatal(err)
	}
	l := a.GetLease()
	suspend := &pawlv1.WorkRequest{
		Credits: &pawlv1.WorkCredits{Turns: 1},
		Item: &pawlv1.WorkRequest_SuspendTurn{SuspendTurn: &pawlv1.SuspendTurnRequest{
			RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
		}},
	}
	if _, err := h.ask(suspend); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ask(stepAnswer(h.step(), `"done"`)); err != nil {
		t.Fatal(err)
	}
	again := h.turn()
	steps := again.GetTurn().GetSteps()
	if again.GetLease().GetAttempt() != 1 || again.GetLease().GetDelivery() != 2 || len(steps) != 1 || steps[0].GetResultJson() != `"done"` {
		t.Fatalf("came back as %v", again)
	}
	got, err := h.ask(stepRequest(again, "run_tests", `{"path":"a"}`))
	if err != nil || !got.GetRequestStep().GetOutcomes()[0].GetReplayed() {
		t.Fatalf("the step of the repeated execution: %v, %v", got, err)
	}
	if len(h.revoked) != 0 {
		t.Fatalf("its own suspension revoked %v", h.revoked)
	}
}

// TestBadRegistration: what a registration may not say, and what comes first.
func TestBadRegistration(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	for name, c := range map[string]struct {
		first  *pawlv1.WorkRequest
		code   codes.Code
		reason string
	}{
		"no registration": {&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Heartbeat{Heartbeat: &pawlv1.WorkerHeartbeat{}}}, codes.InvalidArgument, "REGISTRATION_REQUIRED"},
		"no id":           {registering(&pawlv1.WorkerRegistration{}), codes.InvalidArgument, "INVALID_REQUEST"},
		"unknown prompt":  {registering(&pawlv1.WorkerRegistration{WorkerId: "w", Prompts: []string{"poet"}}), codes.InvalidArgument, "UNKNOWN_PROMPT"},
		"unknown agent":   {registering(&pawlv1.WorkerRegistration{WorkerId: "w", Agents: []string{"poet"}}), codes.InvalidArgument, "UNKNOWN_AGENT"},
		"unknown tool":    {registering(&pawlv1.WorkerRegistration{WorkerId: "w", Tools: []string{"rm_rf"}}), codes.InvalidArgument, "UNKNOWN_TOOL"},
		"unknown pack":    {registering(&pawlv1.WorkerRegistration{WorkerId: "w", Packs: []string{"poems"}}), codes.NotFound, "PACK_NOT_FOUND"},
		"unknown namespace": {
			&pawlv1.WorkRequest{Namespace: "nowhere", Item: registering(registration("w")).GetItem()}, codes.NotFound, "NAMESPACE_NOT_FOUND",
		},
	} {
		st := wantError(t, r.open(ctx, c.first).end(), c.code, c.reason)
		if name == "unknown prompt" && !strings.Contains(st.Message(), "approver, worker") {
			t.Errorf("%s: %q does not list what there is", name, st.Message())
		}
	}
	lenient := registration("w")
	lenient.Prompts, lenient.Tools, lenient.Packs, lenient.AllowUnknown = []string{"worker", "poet"}, []string{"rm_rf"}, []string{"loop", "poems"}, true
	h := r.registerWorker(ctx, lenient)
	if got := strings.Join(h.registered.GetUnknown(), " "); got != "pack:poems prompt:poet tool:rm_rf" {
		t.Fatalf("unknown are %q", got)
	}
}

func registering(reg *pawlv1.WorkerRegistration) *pawlv1.WorkRequest {
	return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Register{Register: reg}}
}

// TestWorkersOff: a server that takes no workers says so.
func TestWorkersOff(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, func(_ *Config, c *services.Config) { c.Work.Off = true }), testContext(t)
	wantError(t, r.open(ctx, registering(registration("w"))).end(), codes.FailedPrecondition, "WORKERS_OFF")
}

// TestBadWork: the worker receives an error for each of its bad requests. Its stream and the run continue.
func TestBadWork(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	r.startWorkers(ctx)
	h := r.registerWorker(ctx, registration("w"))
	a := h.turn()
	r.startWorkers(ctx)
	other := r.registerWorker(ctx, registration("other"))
	theirs := other.turn()
	for name, c := range map[string]struct {
		req    *pawlv1.WorkRequest
		code   codes.Code
		reason string
	}{
		"a second registration":   {registering(registration("w")), codes.InvalidArgument, "ALREADY_REGISTERED"},
		"a broken request":        {&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_CompleteTurn{CompleteTurn: &pawlv1.CompleteTurnRequest{}}}, codes.InvalidArgument, "INVALID_REQUEST"},
		"an event not allowed":    {completion(a, "Fly"), codes.FailedPrecondition, "UNKNOWN_EVENT"},
		"another's turn":          {completion(theirs, "Finish"), codes.PermissionDenied, "TURN_TOKEN_STALE"},
		"no token":                {completion(&pawlv1.TurnAssignment{Lease: &pawlv1.TurnLease{RunId: a.GetLease().GetRunId(), TurnSeq: 1, Attempt: 1}}, "Finish"), codes.PermissionDenied, "TURN_TOKEN_REQUIRED"},
		"another turn":            {completion(&pawlv1.TurnAssignment{Lease: &pawlv1.TurnLease{RunId: a.GetLease().GetRunId(), TurnSeq: 7, Attempt: 1, Token: a.GetLease().GetToken()}}, "Finish"), codes.FailedPrecondition, "TURN_STALE"},
		"an undeclared artifact":  {withArtifact(completion(a, "Again"), "nonsense", "x"), codes.InvalidArgument, "UNDECLARED_ARTIFACT"},
		"a value too large":       {withArtifact(completion(a, "Again"), "note", strings.Repeat("x", 70<<10)), codes.ResourceExhausted, "ARTIFACT_TOO_LARGE"},
		"a value of another type": {withWrite(completion(a, "Again"), jsonValue("note", "{}")), codes.InvalidArgument, "ARTIFACT_TYPE"},
		"a step nobody gave it":   {stepAnswer(&pawlv1.StepAssignment{Lease: &pawlv1.StepLease{RunId: a.GetLease().GetRunId(), Step: 1, Tool: "t", Attempt: 1, Token: "bogus"}}, "1"), codes.PermissionDenied, "STEP_NOT_HELD"},
		"a release of nothing":    {&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Release{Release: &pawlv1.WorkRelease{Work: &pawlv1.WorkRelease_TurnToken{TurnToken: "bogus"}}}}, codes.PermissionDenied, "TURN_TOKEN_STALE"},
		"output of nothing":       {&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Output{Output: &pawlv1.WorkerOutput{Token: "bogus"}}}, codes.PermissionDenied, "TURN_TOKEN_STALE"},
		"output with a gap":       {&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Output{Output: &pawlv1.WorkerOutput{Token: a.GetLease().GetToken(), Offset: 5}}}, codes.InvalidArgument, "CHUNK_GAP"},
	} {
		t.Run(name, func(t *testing.T) {
			c.req.Credits = nil
			_, err := h.ask(c.req)
			wantError(t, err, c.code, c.reason)
		})
	}
	if _, err := h.ask(completion(a, "Again")); err != nil {
		t.Fatalf("a good completion after all that: %v", err)
	}
	if _, err := other.ask(completion(theirs, "Again")); err != nil {
		t.Fatalf("the other's completion: %v", err)
	}
}

func withWrite(req *pawlv1.WorkRequest, write *pawlv1.ArtifactWrite) *pawlv1.WorkRequest {
	req.GetCompleteTurn().Artifacts = append(req.GetCompleteTurn().Artifacts, write)
	return req
}

func withArtifact(req *pawlv1.WorkRequest, name, value string) *pawlv1.WorkRequest {
	return withWrite(req, text(name, value))
}

// TestHeartbeatFlood: the server refuses each heartbeat that comes too fast.
func TestHeartbeatFlood(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	h := r.registerWorker(ctx, registration("w"))
	refused := 0
	for range 3 * heartbeatBurst {
		if _, err := h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Heartbeat{Heartbeat: &pawlv1.WorkerHeartbeat{}}}); err != nil {
			wantError(t, err, codes.ResourceExhausted, "RATE_LIMITED")
			refused++
		}
	}
	if refused == 0 {
		t.Fatal("no heartbeat of a flood was refused")
	}
	r.startWorkers(ctx)
	if _, err := h.ask(completion(h.turn(), "Again")); err != nil {
		t.Fatal(err)
	}
}

// TestHugeRequest: a request over the limit ends the stream. The turn is delivered again with the same
// attempt.
func TestHugeRequest(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, func(c *Config, _ *services.Config) { c.MaxMessageBytes = 64 << 10 }), testContext(t)
	r.register(ctx)
	r.startWorkers(ctx)
	h := r.registerWorker(ctx, registration("w"))
	a := h.turn()
	h.send(withArtifact(completion(a, "Again"), "note", strings.Repeat("x", 10<<20)))
	if err := h.end(); codeOf(err) != codes.ResourceExhausted {
		t.Fatalf("the stream ended with %v", err)
	}
	again := r.registerWorker(ctx, registration("w")).turn()
	if again.GetLease().GetDelivery() != 2 || again.GetLease().GetAttempt() != 1 {
		t.Fatalf("delivered again as %v", again.GetLease())
	}
}

// TestNeverReturns: a worker that sends nothing loses its lease and receives the revocation. Its answer comes
// too late.
func TestNeverReturns(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.loop()
	r.register(ctx)
	r.startWorkers(ctx)
	h := r.registerWorker(ctx, registration("w"))
	a := h.turn()
	r.clock.AwaitAlarm(time.Minute)
	r.clock.Advance(time.Minute)
	h.until("revocation", func() bool { return len(h.revoked) == 1 })
	if got := h.revoked[0]; got.GetCause() != pawlv1.RevokeCause_REVOKE_CAUSE_LEASE_EXPIRED || got.GetTurn().GetToken() != a.GetLease().GetToken() {
		t.Fatalf("revoked %v", got)
	}
	_, err := h.ask(completion(a, "Again"))
	wantError(t, err, codes.PermissionDenied, "TURN_TOKEN_STALE")
	got, err := r.runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: a.GetLease().GetRunId()})
	if err != nil || got.GetRun().GetTurn().GetAttempt() != 2 {
		t.Fatalf("run %v, %v", got, err)
	}
}

// TestHangUp: if the connection of a worker breaks, its turn goes to another worker at once. If the same
// worker is back first, it keeps the turn that it names.
func TestHangUp(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	r.startWorkers(ctx)
	first := r.registerWorker(ctx, registration("first"))
	turn := first.turn()
	first.hangUp()
	back := registration("first")
	back.HeldTurns = []*pawlv1.TurnLease{turn.GetLease()}
	again := r.registerWorker(ctx, back)
	leases := again.registered.GetKeptTurns()
	if len(leases) != 1 || leases[0].GetDelivery() != 1 || leases[0].GetToken() == turn.GetLease().GetToken() {
		t.Fatalf("kept %v", again.registered)
	}
	turn.Lease = leases[0]
	if _, err := again.ask(completion(turn, "Again")); err != nil {
		t.Fatal(err)
	}
	second := r.registerWorker(ctx, registration("second"))
	next := again.turn()
	again.hangUp()
	if d := second.turn().GetLease(); d.GetRunId() != next.GetLease().GetRunId() || d.GetDelivery() != 2 {
		t.Fatalf("delivered again as %v", d)
	}
}

// TestDrain: a server that stops notifies its workers, takes what they have finished, and then ends their
// streams.
func TestDrain(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	r.startWorkers(ctx)
	busy, idle := r.registerWorker(ctx, registration("busy")), r.registerWorker(ctx, registration("idle"))
	a := busy.turn()
	r.services.End()
	busy.until("drain", func() bool { return len(busy.serverDrains) > 0 })
	if _, err := busy.ask(completion(a, "Again")); err != nil {
		t.Fatalf("a completion while the server drains: %v", err)
	}
	wantError(t, idle.end(), codes.Unavailable, "DRAINING")
	wantError(t, busy.end(), codes.Unavailable, "DRAINING")
	if len(busy.turns)+len(idle.turns) != 0 {
		t.Fatal("a draining server assigned a turn")
	}
}

// TestWorkScope: a worker needs the scope work and nothing else. Its stream ends when it loses this scope.
func TestWorkScope(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t, withTokens), testContext(t)
	r.register(withToken(ctx, "driver"))
	wantError(t, r.open(withToken(ctx, "driver"), registering(registration("w"))).end(), codes.PermissionDenied, "SCOPE_MISSING")
	h := r.registerWorker(withToken(ctx, "work"), registration("w"))
	r.startWorkers(withToken(ctx, "driver"))
	if _, err := h.ask(completion(h.turn(), "Again")); err != nil {
		t.Fatalf("with the scope work alone: %v", err)
	}
	if err := r.server.SetRights(Rights{Tokens: []auth.Token{{Principal: "driver", Secret: secretOf("driver"), Scopes: runtime.ScopeAdmin}}}); err != nil {
		t.Fatal(err)
	}
	wantError(t, h.end(), codes.Unauthenticated, "TOKEN_REVOKED")
}

// TestOutput: a follower of a run reads the output of its turn as it comes, in order, and can continue where
// it stopped.
func TestOutput(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	run := r.startWorkers(ctx).GetRun().GetRunId()
	h := r.registerWorker(ctx, registration("w"))
	a := h.turn()
	say := func(token string, offset int64, text string) {
		t.Helper()
		got, err := h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Output{Output: &pawlv1.WorkerOutput{Token: token, Offset: offset, Text: text}}})
		if err != nil || got.GetOutput().GetOffset() != offset+int64(len(text)) {
			t.Fatalf("output %v, %v", got, err)
		}
	}
	follow := func(after *pawlv1.OutputPosition) func() *pawlv1.OutputChunk {
		t.Helper()
		stream, err := r.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{RunId: run, Follow: true, Output: true, OutputAfter: after})
		if err != nil {
			t.Fatal(err)
		}
		return func() *pawlv1.OutputChunk {
			for {
				item, err := stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if item.GetOutput() != nil {
					return item.GetOutput()
				}
			}
		}
	}
	say(a.GetLease().GetToken(), 0, "Once ")
	next := follow(nil)
	if got := next(); got.GetText() != "Once " || got.GetTurnSeq() != a.GetLease().GetTurnSeq() || got.GetDelivery() != 1 || got.GetReset_() {
		t.Fatalf("read %v", got)
	}
	say(a.GetLease().GetToken(), 5, "upon")
	if got := next(); got.GetText() != "upon" || got.GetOffset() != 5 {
		t.Fatalf("read %v", got)
	}
	resumed := follow(&pawlv1.OutputPosition{TurnSeq: a.GetLease().GetTurnSeq(), Delivery: 1, Offset: 7})
	if got := resumed(); got.GetText() != "on" || got.GetOffset() != 7 {
		t.Fatalf("read %v", got)
	}
	if _, err := h.ask(&pawlv1.WorkRequest{
		Credits: &pawlv1.WorkCredits{Turns: 1},
		Item:    &pawlv1.WorkRequest_Release{Release: &pawlv1.WorkRelease{Work: &pawlv1.WorkRelease_TurnToken{TurnToken: a.GetLease().GetToken()}}},
	}); err != nil {
		t.Fatal(err)
	}
	again := h.turn()
	say(again.GetLease().GetToken(), 0, "Anew")
	if got := next(); got.GetText() != "Anew" || got.GetDelivery() != 2 || !got.GetReset_() {
		t.Fatalf("read %v", got)
	}
	taken := &pawlv1.WorkerOutput{Token: again.GetLease().GetToken(), Reset_: true}
	if got, err := h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Output{Output: taken}}); err != nil || got.GetOutput().GetOffset() != 0 {
		t.Fatalf("reset: %v, %v", got, err)
	}
	if got := next(); got.GetText() != "" || got.GetOffset() != 0 || !got.GetReset_() {
		t.Fatalf("read %v", got)
	}
	say(again.GetLease().GetToken(), 0, "Better")
	if got := next(); got.GetText() != "Better" || got.GetReset_() {
		t.Fatalf("read %v", got)
	}
}

// TestOutputAmongRecords: each reader, even a later one, gets each piece of output after the record that was
// the newest when the piece was written, and before the next record. Pieces of reasoning are marked.
func TestOutputAmongRecords(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register(ctx)
	run := r.startWorkers(ctx).GetRun().GetRunId()
	h := r.registerWorker(ctx, registration("w"))
	lease := h.turn().GetLease()
	var offset int64
	say := func(text string, reasoning bool) {
		t.Helper()
		piece := &pawlv1.WorkerOutput{Token: lease.GetToken(), Offset: offset, Text: text, Reasoning: reasoning}
		if _, err := h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Output{Output: piece}}); err != nil {
			t.Fatal(err)
		}
		offset += int64(len(text))
	}
	write := func(value string) {
		t.Helper()
		set := &pawlv1.SetArtifactsRequest{RunId: run, TurnToken: lease.GetToken(), WriteId: value, Artifacts: []*pawlv1.ArtifactWrite{text("note", value)}}
		if _, err := h.ask(&pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_SetArtifacts{SetArtifacts: set}}); err != nil {
			t.Fatal(err)
		}
	}
	say("think", true)
	say("say", false)
	write("one")
	say("on", false)
	write("two")
	write("three")
	say("end", true)
	stream, err := r.runs.StreamTransitions(ctx, &pawlv1.StreamTransitionsRequest{
		RunId: run, Follow: true, Output: true, Kinds: []pawlv1.RecordKind{pawlv1.RecordKind_RECORD_KIND_ARTIFACTS_SET},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"(think)", "say", "one", "on", "two", "three", "(end)"} {
		item, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		got := item.GetOutput().GetText()
		if item.GetOutput().GetReasoning() {
			got = "(" + got + ")"
		}
		if written := item.GetRecord().GetArtifactsSet().GetArtifactsWritten(); len(written) > 0 {
			got = written[0].GetValue().GetText()
		}
		if got != want {
			t.Fatalf("item %d is %q, want %q", i, got, want)
		}
	}
}
