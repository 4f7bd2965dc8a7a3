package runtime_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
	"github.com/pawl-dev/pawl/internal/runtime/timetravel"
)

func forkRequest(run string, seq uint64) timetravel.ForkRequest {
	return timetravel.ForkRequest{RunRef: ref(run, everyone), AtSeq: seq}
}

func (r *rig) fork(req timetravel.ForkRequest) runtime.Answer {
	r.t.Helper()
	answer, err := r.ForkRun(context.Background(), req)
	if err != nil {
		r.t.Fatalf("ForkRun: %v", err)
	}
	return answer
}

// steps asks for tool calls under a token.
func (r *rig) steps(run, token string, requests ...machine.StepRequest) []runtime.StepAnswer {
	r.t.Helper()
	answer, err := r.RequestSteps(context.Background(), runtime.StepsRequest{
		TurnCall: runtime.TurnCall{RunRef: ref(run, everyone), TurnToken: token}, Requests: requests,
	})
	if err != nil {
		r.t.Fatalf("RequestSteps: %v", err)
	}
	return answer.Steps
}

func (r *rig) answer(run, token string, step uint32, tool, result string) {
	r.t.Helper()
	_, err := r.ResolveStep(context.Background(), runtime.ResolveRequest{
		RunRef: ref(run, everyone), TurnToken: token, Step: step, Tool: tool, Attempt: 1, OK: true, Result: []byte(result),
	})
	if err != nil {
		r.t.Fatalf("ResolveStep: %v", err)
	}
}

func (r *rig) write(run, token, name, value string) {
	r.t.Helper()
	_, err := r.SetArtifacts(context.Background(), runtime.ArtifactsRequest{
		RunRef: ref(run, everyone), TurnToken: token,
		Artifacts: []machine.ArtifactWrite{{Name: name, Value: []byte(value)}},
	})
	if err != nil {
		r.t.Fatalf("SetArtifacts: %v", err)
	}
}

// source is a run whose second visit of work has an answered step, a pending one,
// artifacts and messages, and that was cancelled then. It returns the seq before
// the end.
func (r *rig) source() (run string, before uint64) {
	r.t.Helper()
	ctx := context.Background()
	req := startRequest("src")
	req.Input = []machine.Part{{Kind: machine.PartText, Text: "please"}}
	started := r.startWith(req)
	run = started.RunID
	next := r.emit(run, "Again", "e1", started.Turn.Token)
	token := next.Turn.Token
	r.write(run, token, "note", "draft")
	r.write(run, token, "log", `{"n":1}`)
	r.write(run, token, "log", `[2]`)
	asked := r.steps(run, token,
		machine.StepRequest{Tool: "run_tests", Payload: []byte(`{"path":"a"}`)},
		machine.StepRequest{Tool: "write_file", Payload: []byte(`{}`)})
	r.answer(run, token, asked[0].Step, "run_tests", `{"passed":true}`)
	before = r.view(run).State.Seq
	if _, err := r.CancelRun(ctx, runtime.ControlRequest{RunRef: ref(run, everyone)}); err != nil {
		r.t.Fatal(err)
	}
	return run, before
}

// TestForkContinuesAnEndedRun: the copy has what the run had before its end, and
// its turn finds the answered step under the same key, without asking again.
func TestForkContinuesAnEndedRun(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, before := r.source()
	ended := r.view(run)
	req := forkRequest(run, before)
	req.RequestID, req.Labels = "f1", []machine.Label{{Key: "why", Value: "repair"}}
	got := r.fork(req)
	fork := got.RunID
	s := got.State
	if s.TotalVisits != 0 || s.ToolCalls != 0 || s.Current != "work" || s.Seq != 1 || s.Forked.RunID != run || s.Forked.Seq != before {
		t.Fatalf("fork begins with %+v", s)
	}
	origin, ok := got.Entry.Records[0].Body.(*machine.Origin)
	if !ok || origin.State.Seq != before || len(origin.Steps) != 1 {
		t.Fatalf("first record is %+v", got.Entry.Records[0])
	}
	if note, log := r.artifact(fork, "note"), r.artifact(fork, "log"); note != "draft" || log != `[{"n":1},2]` {
		t.Fatalf("artifacts are %q, %q", note, log)
	}
	turn, err := r.GetTurn(context.Background(), ref(fork, everyone))
	if err != nil {
		t.Fatal(err)
	}
	if len(turn.Messages) != 1 || turn.Messages[0].Parts[0].Text != "please" || turn.Attempt != 1 || !strings.Contains(turn.System, "Goal: ship.") {
		t.Fatalf("turn is %+v", turn)
	}
	if len(turn.Steps) != 1 || string(turn.Steps[0].Result) != `{"passed":true}` || string(turn.Steps[0].Payload) != `{"path":"a"}` {
		t.Fatalf("steps are %+v", turn.Steps)
	}
	asked := r.steps(fork, turn.Token,
		machine.StepRequest{Tool: "run_tests", Payload: []byte(`{"path":"a"}`)},
		machine.StepRequest{Tool: "write_file", Payload: []byte(`{}`)})
	if !asked[0].Replayed || string(asked[0].Result) != `{"passed":true}` || asked[1].Replayed {
		t.Fatalf("answers are %+v", asked)
	}
	r.emit(fork, "Finish", "e9", turn.Token)
	if again := r.view(run); !reflect.DeepEqual(again, ended) {
		t.Fatalf("the source changed: %+v", again)
	}
}

// TestForkIsIdempotent: the same request is the same run, after a restart too, and
// another body under its id is refused.
func TestForkIsIdempotent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, before := r.source()
	req := forkRequest(run, before)
	req.RequestID, req.Artifacts = "f1", []machine.ArtifactWrite{{Name: "log", Value: []byte(`{"a":1}`), Form: machine.FormJSON}}
	first := r.fork(req)
	r.restart()
	req.Artifacts = []machine.ArtifactWrite{{Name: "log", Value: []byte(`{ "a": 1 }`), Form: machine.FormJSON}}
	again := r.fork(req)
	if !again.Duplicate || again.RunID != first.RunID {
		t.Fatalf("the repeat made %s, first was %s", again.RunID, first.RunID)
	}
	req.AtSeq--
	_, err := r.ForkRun(context.Background(), req)
	wantReason(t, err, "ID_REUSED")
	req.AtSeq = 999
	_, err = r.ForkRun(context.Background(), req)
	wantReason(t, err, "ID_REUSED")
}

// TestForkWithChanges: changed artifacts answer nothing from the record unless
// that is asked for; variables reach the prompt.
func TestForkWithChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, before := r.source()
	req := forkRequest(run, before)
	req.Artifacts = []machine.ArtifactWrite{{Name: "log", Value: []byte(`{ "fresh": true }`)}}
	req.Variables = []byte(`{"goal":"mend"}`)
	fork := r.fork(req)
	if got := r.artifact(fork.RunID, "log"); got != `[{"fresh":true}]` || len(fork.State.Steps) != 0 {
		t.Fatalf("log is %s, steps %v", got, fork.State.Steps)
	}
	turn, err := r.GetTurn(context.Background(), ref(fork.RunID, everyone))
	if err != nil || !strings.Contains(turn.System, "Goal: mend. Be brief.") {
		t.Fatalf("prompt is %q, %v", turn.System, err)
	}
	reuse := true
	req.ReuseSteps = &reuse
	if kept := r.fork(req); len(kept.State.Steps) != 1 {
		t.Fatalf("steps are %v", kept.State.Steps)
	}
	reuse = false
	req.Artifacts = nil
	if none := r.fork(req); len(none.State.Steps) != 0 {
		t.Fatalf("steps are %v", none.State.Steps)
	}
}

// TestForkIntoAnotherPack: it needs every state that was visited.
func TestForkIntoAnotherPack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, before := r.source()
	r.register("", strings.NewReplacer(`"version": "1.0.0",
  "template_engine"`, `"version": "2.0.0",
  "template_engine"`, "Goal:", "New goal:").Replace(loopPack))
	req := forkRequest(run, before)
	req.Pack = "loop@2.0.0"
	fork := r.fork(req)
	if fork.State.PackVersion != "2.0.0" || len(fork.State.Steps) != 0 {
		t.Fatalf("fork is %+v", fork.State)
	}
	turn, err := r.GetTurn(context.Background(), ref(fork.RunID, everyone))
	if err != nil || !strings.HasPrefix(turn.System, "New goal: ship.") {
		t.Fatalf("prompt is %q, %v", turn.System, err)
	}
	r.register("", strings.NewReplacer(`"version": "1.0.0",
  "template_engine"`, `"version": "3.0.0",
  "template_engine"`, `"work"`, `"labour"`).Replace(loopPack))
	req.Pack = "loop@3.0.0"
	_, err = r.ForkRun(context.Background(), req)
	wantReason(t, err, "FORK_STATE_MISSING")
}

// TestForkRefusals: nothing is made.
func TestForkRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, before := r.source()
	tests := []struct {
		name, reason string
		change       func(*timetravel.ForkRequest)
	}{
		{"ended there", "FORK_TERMINAL", func(q *timetravel.ForkRequest) { q.AtSeq = 0 }},
		{"no such record", "RECORD_NOT_FOUND", func(q *timetravel.ForkRequest) { q.AtSeq = before + 100 }},
		{"no such run", "RUN_NOT_FOUND", func(q *timetravel.ForkRequest) { q.RunID = "01J00000000000000000000000" }},
		{"no such pack", "PACK_NOT_FOUND", func(q *timetravel.ForkRequest) { q.Pack = "ghost" }},
		{"reader", "SCOPE_MISSING", func(q *timetravel.ForkRequest) { q.Principal = reader }},
		{"who may not see it", "RUN_NOT_FOUND", func(q *timetravel.ForkRequest) { q.Principal = nobody }},
		{"unknown variable", "BAD_VARIABLES", func(q *timetravel.ForkRequest) { q.Variables = []byte(`{"ghost":1}`) }},
		{"variables", "INVALID_JSON", func(q *timetravel.ForkRequest) { q.Variables = []byte(`[1]`) }},
		{"artifact", "UNDECLARED_ARTIFACT", func(q *timetravel.ForkRequest) { q.Artifacts = []machine.ArtifactWrite{{Name: "ghost"}} }},
		{"artifact type", "ARTIFACT_TYPE", func(q *timetravel.ForkRequest) {
			q.Artifacts = []machine.ArtifactWrite{{Name: "log", Value: []byte("{")}}
		}},
		{"id", "ID_RESERVED", func(q *timetravel.ForkRequest) { q.RequestID = "pawl:x" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := forkRequest(run, before)
			req.RequestID = "f-" + tt.name
			tt.change(&req)
			answer, err := r.ForkRun(context.Background(), req)
			wantReason(t, err, tt.reason)
			if answer.RunID != "" {
				t.Fatalf("a run was made: %+v", answer)
			}
		})
	}
}

// TestForkIsWatched: the Origin says where the run stands.
func TestForkIsWatched(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run, before := r.source()
	fork := r.fork(forkRequest(run, before))
	r.emit(fork.RunID, "Finish", "", fork.Turn.Token)
	w, err := r.Watch(context.Background(), streams.Request{
		Call: runtime.Call{Principal: everyone}, Snapshots: true,
		Filter: streams.Filter{RunID: fork.RunID, Kinds: []machine.RecordKind{machine.RecOrigin, machine.RecTransition}, States: []string{"work"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var seqs []uint64
	for {
		batch, err := w.Next(context.Background())
		if errors.Is(err, streams.ErrEnded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range batch.Records {
			seqs = append(seqs, row.Record.Seq)
			if len(row.Snapshot.Artifacts) != 2 {
				t.Fatalf("snapshot has %v", row.Snapshot.Artifacts)
			}
		}
	}
	if !reflect.DeepEqual(seqs, []uint64{1}) {
		t.Fatalf("records in work are %v", seqs)
	}
}
