package runtime_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

func TestRunFromStartToEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	if run.Duplicate || run.State.Current != "work" || run.Turn == nil || run.Turn.Token == "" {
		t.Fatalf("start answered %+v", run)
	}
	answer, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
		RunRef: ref(run.RunID, everyone), Event: "Again", EventID: "e1", TurnToken: run.Turn.Token,
		Artifacts: []machine.ArtifactWrite{
			{Name: "note", Value: []byte("first")}, {Name: "log", Value: []byte(`{"n": 1}`)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if tr := transition(t, answer); tr.To != "work" || tr.Visit != 2 {
		t.Fatalf("transition %+v", tr)
	}
	asked := r.emit(run.RunID, "Ask", "e2", answer.Turn.Token)
	if asked.State.Status != machine.Waiting || asked.State.Current != "gate" {
		t.Fatalf("in state %s %v", asked.State.Current, asked.State.Status)
	}
	approved, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
		RunRef: ref(run.RunID, approver), Event: "Approved", EventID: "e3",
	})
	if err != nil {
		t.Fatal(err)
	}
	if approved.Turn.Token != "" {
		t.Fatal("a principal that may not hold a turn was given its token")
	}
	turn, err := r.GetTurn(context.Background(), ref(run.RunID, driver))
	if err != nil {
		t.Fatal(err)
	}
	done, err := r.CompleteTurn(context.Background(), runtime.CompleteRequest{
		TurnCall: runtime.TurnCall{RunRef: ref(run.RunID, driver), TurnToken: turn.Token},
		Output:   []machine.Part{{Kind: machine.PartText, Text: "shipped"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if done.State.Status != machine.Completed || done.Turn != nil {
		t.Fatalf("ended %v, turn %v", done.State.Status, done.Turn)
	}
	if got := r.artifact(run.RunID, "log"); got != `[{"n":1}]` {
		t.Fatalf("log is %s", got)
	}
}

func TestGetTurnRendersAndFences(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := startRequest("s1")
	req.Input = []machine.Part{{Kind: machine.PartText, Text: "hello {{goal}}"}}
	run := r.startWith(req)
	answer, err := r.CompleteTurn(context.Background(), runtime.CompleteRequest{
		TurnCall:  runtime.TurnCall{RunRef: ref(run.RunID, everyone), TurnToken: run.Turn.Token},
		Output:    []machine.Part{{Kind: machine.PartText, Text: "on it"}},
		Event:     "Again",
		Artifacts: []machine.ArtifactWrite{{Name: "note", Value: []byte("{{style}}")}, {Name: "log", Value: []byte("1")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := r.GetTurn(context.Background(), ref(run.RunID, everyone))
	if err != nil {
		t.Fatal(err)
	}
	if want := "Goal: ship. Be brief. Note: {{style}} Log: [1]"; turn.System != want {
		t.Fatalf("prompt is %q, want %q", turn.System, want)
	}
	if len(turn.Messages) != 2 || turn.Messages[0].Parts[0].Text != "hello {{goal}}" || turn.Messages[1].Role != "assistant" {
		t.Fatalf("messages are %+v", turn.Messages)
	}
	if len(turn.Tools) != 2 || turn.Tools[0].Name != "run_tests" || len(turn.Tools[0].Parameters) == 0 {
		t.Fatalf("tools are %+v", turn.Tools)
	}
	if len(turn.Events) != 4 || turn.Events[0] != "Again" || len(turn.Slots) != 2 {
		t.Fatalf("events %v, slots %v", turn.Events, turn.Slots)
	}
	_, err = r.EmitEvent(context.Background(), runtime.EmitRequest{
		RunRef: ref(run.RunID, everyone), Event: "Again", TurnToken: answer.Turn.Token,
	})
	wantReason(t, err, "TURN_TOKEN_STALE")
	r.emit(run.RunID, "Again", "", turn.Token)
}

func TestTokensDieWithTheProcess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.start("s1")
	first := r.emit(run.RunID, "Again", "e1", run.Turn.Token)
	r.restart()
	_, err := r.EmitEvent(context.Background(), runtime.EmitRequest{
		RunRef: ref(run.RunID, everyone), Event: "Again", EventID: "e2", TurnToken: first.Turn.Token,
	})
	wantReason(t, err, "TURN_TOKEN_STALE")
	again := r.emit(run.RunID, "Again", "e1", run.Turn.Token)
	if !again.Duplicate || again.State.Seq != first.State.Seq || again.Entry.Hash != first.Entry.Hash {
		t.Fatalf("the repeat is answered %+v", again)
	}
	turn, err := r.GetTurn(context.Background(), ref(run.RunID, everyone))
	if err != nil {
		t.Fatal(err)
	}
	r.emit(run.RunID, "Again", "e2", turn.Token)
}

func TestWorkersRunsAreLeased(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := startRequest("s1")
	req.Execution = machine.Workers
	run := r.startWith(req)
	if run.Turn == nil || run.Turn.Token != "" {
		t.Fatalf("turn %+v", run.Turn)
	}
	ready, err := r.store.ReadyRuns(context.Background(), 0, "", 10)
	if err != nil || len(ready) != 1 || ready[0] != run.RunID {
		t.Fatalf("ready runs %v, %v", ready, err)
	}
	_, err = r.GetTurn(context.Background(), ref(run.RunID, everyone))
	wantReason(t, err, "TURN_LEASED")
	_, err = r.CompleteTurn(context.Background(), runtime.CompleteRequest{
		TurnCall: runtime.TurnCall{RunRef: ref(run.RunID, everyone), TurnSeq: run.Turn.Seq, Attempt: 1}, Event: "Again",
	})
	wantReason(t, err, "TURN_LEASED")
}

func TestStartIsChecked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tests := []struct {
		name   string
		change func(*runtime.StartRequest)
		want   string
	}{
		{"no execution", func(q *runtime.StartRequest) { q.Execution = 0 }, "EXECUTION_REQUIRED"},
		{"no pack", func(q *runtime.StartRequest) { q.Pack = "" }, "PACK_REQUIRED"},
		{"unknown pack", func(q *runtime.StartRequest) { q.Pack = "nope" }, "PACK_NOT_FOUND"},
		{"unknown namespace", func(q *runtime.StartRequest) { q.Namespace = "nope" }, "NAMESPACE_NOT_FOUND"},
		{"another namespace", func(q *runtime.StartRequest) { q.Namespace = "other" }, "PACK_NOT_FOUND"},
		{"unknown agent", func(q *runtime.StartRequest) { q.Agent = "x" }, "NO_SUCH_ENTRY"},
		{"state without admin", func(q *runtime.StartRequest) { q.State = "gate" }, "SCOPE_MISSING"},
		{"unknown state", func(q *runtime.StartRequest) { q.State, q.Principal = "x", boss }, "NO_SUCH_ENTRY"},
		{"reader", func(q *runtime.StartRequest) { q.Principal = reader }, "SCOPE_MISSING"},
		{"missing variable", func(q *runtime.StartRequest) { q.Variables = nil }, "BAD_VARIABLES"},
		{"variables no object", func(q *runtime.StartRequest) { q.Variables = []byte("[]") }, "INVALID_JSON"},
		{"variables too large", func(q *runtime.StartRequest) { q.Variables = make([]byte, 300<<10) }, "VARIABLES_TOO_LARGE"},
		{"labels twice", func(q *runtime.StartRequest) { q.Labels = []machine.Label{{Key: "a"}, {Key: "a"}} }, "BAD_LABEL"},
		{"too many labels", func(q *runtime.StartRequest) { q.Labels = make([]machine.Label, 65) }, "MAX_LABELS"},
		{"reserved id", func(q *runtime.StartRequest) { q.RequestID = "pawl:1" }, "ID_RESERVED"},
		{"bad input", func(q *runtime.StartRequest) { q.Input = []machine.Part{{}} }, "UNKNOWN_PART"},
	}
	for _, tt := range tests {
		req := startRequest("bad")
		tt.change(&req)
		_, err := r.StartRun(context.Background(), req)
		if got := reason(err); got != tt.want {
			t.Errorf("%s: %q (%v), want %q", tt.name, got, err, tt.want)
		}
	}
	if n := r.store.Commits(); n != 0 {
		t.Fatalf("%d commits of refused starts", n)
	}
	admin := startRequest("in the middle")
	admin.State, admin.Principal = "gate", boss
	if run := r.startWith(admin); !run.State.EntryOverride || run.State.Current != "gate" {
		t.Fatalf("override started %+v", run.State)
	}
	own := startRequest("at the entry")
	own.State = "work"
	if run := r.startWith(own); run.State.EntryOverride || run.State.Current != "work" {
		t.Fatalf("a start that names the workflow's own entry: %+v", run.State)
	}
}
