package runtime_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// TestOrderOfChecks proves section 4: a request that violates check n and all later ones
// receives the error of check n.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	used := r.start("used")
	r.emit(used.RunID, "Again", "taken", used.Turn.Token)
	ended := r.start("ended")
	r.emit(ended.RunID, "Again", "taken", ended.Turn.Token)
	if _, err := r.CancelRun(ctx, runtime.ControlRequest{RunRef: ref(ended.RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
	open, paused := r.start("open"), r.start("paused")
	if _, err := r.PauseRun(ctx, runtime.ControlRequest{RunRef: ref(paused.RunID, everyone)}); err != nil {
		t.Fatal(err)
	}
	bad := []machine.ArtifactWrite{{Name: "unknown", Value: []byte("x")}}
	tests := []struct {
		name string
		req  runtime.EmitRequest
		want string
	}{
		{"1 well formed before all", runtime.EmitRequest{RunRef: ref("nope", nobody)}, "RUN_NOT_FOUND"},
		{"1 no event", runtime.EmitRequest{RunRef: ref(ended.RunID, everyone), EventID: "taken", ExpectedSeq: 9, Artifacts: bad}, "EVENT_REQUIRED"},
		{"2 unseen is absent", runtime.EmitRequest{RunRef: ref(used.RunID, nobody), Event: "X", EventID: "taken"}, "RUN_NOT_FOUND"},
		{"2 absent", runtime.EmitRequest{RunRef: ref("nope", everyone), Event: "X", EventID: "taken"}, "RUN_NOT_FOUND"},
		{"3 other body, run open", runtime.EmitRequest{RunRef: ref(used.RunID, everyone), Event: "X", EventID: "taken", ExpectedSeq: 9, Artifacts: bad}, "ID_REUSED"},
		{"3 other body, run ended", runtime.EmitRequest{RunRef: ref(ended.RunID, everyone), Event: "X", EventID: "taken", ExpectedSeq: 9}, "ID_REUSED"},
		{"4 ended before authority", runtime.EmitRequest{RunRef: ref(ended.RunID, reader), Event: "X", EventID: "new", ExpectedSeq: 9, Artifacts: bad}, "RUN_TERMINAL"},
		{"5 seq before authority", runtime.EmitRequest{RunRef: ref(open.RunID, reader), Event: "X", EventID: "new", ExpectedSeq: 9, Artifacts: bad}, "SEQ_MISMATCH"},
		{"6 authority before the pause", runtime.EmitRequest{RunRef: ref(paused.RunID, everyone), Event: "X", EventID: "new", ExpectedSeq: 1, Artifacts: bad}, "TURN_TOKEN_REQUIRED"},
		{"6 the pause before the event", runtime.EmitRequest{RunRef: ref(paused.RunID, everyone), Event: "X", EventID: "new", TurnToken: paused.Turn.Token, ExpectedSeq: 1, Artifacts: bad}, "PAUSED"},
		{"7 event before artifacts", runtime.EmitRequest{RunRef: ref(open.RunID, everyone), Event: "X", EventID: "new", TurnToken: open.Turn.Token, ExpectedSeq: 1, Artifacts: bad}, "UNKNOWN_EVENT"},
		{"8 artifacts", runtime.EmitRequest{RunRef: ref(open.RunID, everyone), Event: "Again", EventID: "new", TurnToken: open.Turn.Token, Artifacts: bad}, "UNDECLARED_ARTIFACT"},
	}
	before := r.store.Commits()
	for _, tt := range tests {
		_, err := r.EmitEvent(ctx, tt.req)
		if got := reason(err); got != tt.want {
			t.Errorf("%s: %q (%v), want %q", tt.name, got, err, tt.want)
		}
	}
	if after := r.store.Commits(); after != before {
		t.Fatalf("refusals made %d commits", after-before)
	}
	if answer := r.emit(open.RunID, "Again", "new", open.Turn.Token); answer.Duplicate {
		t.Fatal("a refusal used up the id")
	}
}

// TestRepeatsAreAnsweredForEver proves check (3) for each kind of input, on an
// open run, on an ended one and after a restart.
func TestRepeatsAreAnsweredForEver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	run := r.start("s1")
	on := ref(run.RunID, everyone)
	token := run.Turn.Token
	calls := []struct {
		name string
		call func() (runtime.Answer, error)
	}{
		{"SetArtifacts", func() (runtime.Answer, error) {
			return r.SetArtifacts(ctx, runtime.ArtifactsRequest{
				RunRef: on, WriteID: "i", TurnToken: token,
				Artifacts: []machine.ArtifactWrite{{Name: "log", Value: []byte(`{"b": 1, "a": 2}`)}},
			})
		}},
		{"SendInput", func() (runtime.Answer, error) {
			return r.SendInput(ctx, runtime.InputRequest{RunRef: on, MessageID: "i", Parts: []machine.Part{{Kind: machine.PartText, Text: "hi"}}})
		}},
		{"RequestSteps", func() (runtime.Answer, error) {
			return r.RequestSteps(ctx, runtime.StepsRequest{
				TurnCall: runtime.TurnCall{RunRef: on, TurnToken: token, ID: "i"},
				Requests: []machine.StepRequest{{Tool: "run_tests", Payload: []byte(`{"path": "x"}`)}, {Tool: "run_tests", Payload: []byte(`{}`)}},
			})
		}},
		{"ResolveStep", func() (runtime.Answer, error) {
			return r.ResolveStep(ctx, runtime.ResolveRequest{
				RunRef: on, TurnToken: token, ID: "i", Step: 1, Tool: "run_tests", Attempt: 1, OK: true, Result: []byte(`{"ok": true}`),
			})
		}},
		{"CompleteTurn", func() (runtime.Answer, error) {
			return r.CompleteTurn(ctx, runtime.CompleteRequest{
				TurnCall: runtime.TurnCall{RunRef: on, TurnToken: token, TurnSeq: run.Turn.Seq, Attempt: 1}, Event: "Again",
				Output: []machine.Part{{Kind: machine.PartText, Text: "out"}},
			})
		}},
		{"PauseRun", func() (runtime.Answer, error) { return r.PauseRun(ctx, runtime.ControlRequest{RunRef: on, ID: "i"}) }},
		{"ResumeRun", func() (runtime.Answer, error) { return r.ResumeRun(ctx, runtime.ControlRequest{RunRef: on, ID: "i"}) }},
		{"CancelRun", func() (runtime.Answer, error) { return r.CancelRun(ctx, runtime.ControlRequest{RunRef: on, ID: "i"}) }},
	}
	firsts := make([]runtime.Answer, len(calls))
	for i, c := range calls {
		answer, err := c.call()
		if err != nil || answer.Duplicate {
			t.Fatalf("%s: %+v, %v", c.name, answer, err)
		}
		firsts[i] = answer
	}
	repeat := func(when string) {
		for i, c := range calls {
			again, err := c.call()
			if err != nil || !again.Duplicate {
				t.Fatalf("%s %s: %+v, %v", c.name, when, again, err)
			}
			sameAnswer(t, c.name+" "+when, firsts[i], again)
		}
	}
	commits := r.store.Commits()
	repeat("on the ended run")
	r.restart()
	repeat("after a restart")
	if n := r.store.Commits(); n != commits {
		t.Fatalf("repeats made %d commits", n-commits)
	}
	if got := r.artifact(run.RunID, "log"); got != `[{"b":1,"a":2}]` {
		t.Fatalf("log is %s", got)
	}
}

// sameAnswer compares everything except the token and Duplicate. Requested steps may have another
// status, because a repeat returns their present one.
func sameAnswer(t *testing.T, what string, first, again runtime.Answer) {
	t.Helper()
	if len(first.Steps) > 0 {
		sameSteps(t, what, first, again)
		return
	}
	if first.State.Seq != again.State.Seq || first.State.Status != again.State.Status ||
		first.State.PrevHash != again.State.PrevHash || first.Disposition != again.Disposition {
		t.Fatalf("%s: state %+v, first %+v", what, again.State, first.State)
	}
	if first.Entry.First != again.Entry.First || len(first.Entry.Records) != len(again.Entry.Records) || first.Entry.Cursor != again.Entry.Cursor {
		t.Fatalf("%s: entry %+v, first %+v", what, again.Entry, first.Entry)
	}
	if (first.Turn == nil) != (again.Turn == nil) || first.Turn != nil && first.Turn.Seq != again.Turn.Seq {
		t.Fatalf("%s: turn %+v, first %+v", what, again.Turn, first.Turn)
	}
}

// sameSteps compares which steps were asked for, under which keys.
func sameSteps(t *testing.T, what string, first, again runtime.Answer) {
	t.Helper()
	if len(first.Steps) != len(again.Steps) || first.Entry.First != again.Entry.First || again.State.Seq < first.State.Seq {
		t.Fatalf("%s: steps %+v, first %+v", what, again.Steps, first.Steps)
	}
	for i := range first.Steps {
		a, b := first.Steps[i], again.Steps[i]
		if a.Step != b.Step || a.Key != b.Key || a.Replayed != b.Replayed || (a.Denial == nil) != (b.Denial == nil) {
			t.Fatalf("%s: step %+v, first %+v", what, b, a)
		}
		if again.State.Status.Terminal() && b.Status == machine.StepStatusPending {
			t.Fatalf("%s: step %+v of a run that has ended", what, b)
		}
	}
}

func TestOtherBodyIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	run := r.start("s1")
	req := startRequest("s1")
	req.Variables = []byte(`{"goal": "sink"}`)
	_, err := r.StartRun(ctx, req)
	wantReason(t, err, "ID_REUSED")
	req.Principal = driver
	if other := r.startWith(req); other.RunID == run.RunID || other.Duplicate {
		t.Fatal("request ids of two principals are one")
	}
	req = startRequest("s1")
	req.Variables = []byte(` { "goal" : "ship" } `)
	if again := r.startWith(req); !again.Duplicate || again.RunID != run.RunID || again.Turn.Token != run.Turn.Token {
		t.Fatalf("the same start in other spaces is %+v", again)
	}
	complete := func(text string) error {
		_, err := r.CompleteTurn(ctx, runtime.CompleteRequest{
			TurnCall: runtime.TurnCall{RunRef: ref(run.RunID, everyone), TurnToken: run.Turn.Token},
			Event:    "Again", Output: []machine.Part{{Kind: machine.PartText, Text: text}},
		})
		return err
	}
	if err := complete("a"); err != nil {
		t.Fatal(err)
	}
	if err := complete("a"); err != nil {
		t.Fatalf("the same completion again: %v", err)
	}
	wantReason(t, complete("b"), "TURN_TOKEN_STALE")
}

// TestStartSurvivesAMovedDefault: request ids belong to a namespace. A start with the same id in
// another namespace looks for its pack there, and starts another run.
func TestStartSurvivesAMovedDefault(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	req := startRequest("s1")
	req.Namespace = "other"
	_, err := r.StartRun(context.Background(), req)
	wantReason(t, err, "PACK_NOT_FOUND")
	r.register("other", loopPack)
	if other := r.startWith(req); other.Duplicate || other.RunID == run.RunID {
		t.Fatal("request ids of two namespaces are one")
	}
	_, err = r.GetRun(context.Background(), query.GetRunRequest{RunRef: runtime.RunRef{
		Call: runtime.Call{Namespace: "other", Principal: everyone}, RunID: run.RunID,
	}})
	wantReason(t, err, "RUN_NOT_FOUND")
}
