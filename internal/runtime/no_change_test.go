package runtime_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// keptCase is one call with an id that is answered without an effect, and a change after which the
// same call would have an effect or would be refused.
type keptCase struct {
	// before makes an input after which the call has no effect.
	before func(*keptRig)
	call   func(*keptRig) (runtime.Answer, error)
	// after changes what the call would do.
	after func(*keptRig)
}

// keptRig is a run with its first token, and a second one that fences it.
type keptRig struct {
	*rig
	run, token string
}

func (r *keptRig) control(id string) runtime.ControlRequest {
	return runtime.ControlRequest{RunRef: ref(r.run, everyone), ID: id}
}

func (r *keptRig) turn(id string) runtime.TurnCall {
	return runtime.TurnCall{RunRef: ref(r.run, everyone), TurnToken: r.token, ID: id}
}

func (r *keptRig) ok(_ runtime.Answer, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *keptRig) request(id string) (runtime.Answer, error) {
	return r.RequestSteps(context.Background(), runtime.StepsRequest{
		TurnCall: r.turn(id), Requests: []machine.StepRequest{{Key: "k", Tool: "write_file", Payload: []byte(`{}`)}},
	})
}

func (r *keptRig) resolve(id string) (runtime.Answer, error) {
	return r.ResolveStep(context.Background(), runtime.ResolveRequest{
		RunRef: ref(r.run, everyone), TurnToken: r.token, ID: id, Step: 1, Tool: "write_file", Attempt: 1, OK: true, Result: []byte(`1`),
	})
}

func (r *keptRig) fail(id string) (runtime.Answer, error) {
	r.t.Helper()
	turn, err := r.GetTurn(context.Background(), ref(r.run, everyone))
	if err != nil {
		r.t.Fatal(err)
	}
	return r.FailTurn(context.Background(), runtime.FailRequest{
		TurnCall: runtime.TurnCall{RunRef: ref(r.run, everyone), TurnToken: turn.Token, ID: id, TurnSeq: 1, Attempt: 1},
		Error:    machine.Fault{Code: "X"}, Retryable: true,
	})
}

// leave moves the run to another visit.
func (r *keptRig) leave() {
	r.t.Helper()
	turn, err := r.GetTurn(context.Background(), ref(r.run, everyone))
	if err != nil {
		r.t.Fatal(err)
	}
	r.emit(r.run, "Again", "", turn.Token)
}

// kept has every call that takes an id. It is nil for a call whose every answer is an effect of its own.
var kept = map[string]*keptCase{
	"StartRun": nil, "ForkRun": nil, "EmitEvent": nil, "SendInput": nil, "SetArtifacts": nil,
	"CompleteTurn": nil, "WriteOutput": nil, "CancelRun": nil,
	"PauseRun": {
		before: func(r *keptRig) { r.ok(r.PauseRun(context.Background(), r.control("first"))) },
		call:   func(r *keptRig) (runtime.Answer, error) { return r.PauseRun(context.Background(), r.control("id")) },
		after:  func(r *keptRig) { r.ok(r.ResumeRun(context.Background(), r.control("other"))) },
	},
	"ResumeRun": {
		before: func(*keptRig) {},
		call:   func(r *keptRig) (runtime.Answer, error) { return r.ResumeRun(context.Background(), r.control("id")) },
		after:  func(r *keptRig) { r.ok(r.PauseRun(context.Background(), r.control("other"))) },
	},
	"SuspendTurn": {
		before: func(r *keptRig) {
			r.ok(r.request(""))
			r.ok(r.SuspendTurn(context.Background(), r.turn("first")))
		},
		call:  func(r *keptRig) (runtime.Answer, error) { return r.SuspendTurn(context.Background(), r.turn("id")) },
		after: func(r *keptRig) { r.leave() },
	},
	"RequestStep": {
		before: func(r *keptRig) { r.ok(r.request("")) },
		call:   func(r *keptRig) (runtime.Answer, error) { return r.request("id") },
		after:  func(r *keptRig) { r.leave() },
	},
	"ResolveStep": {
		before: func(r *keptRig) {
			r.ok(r.request(""))
			r.ok(r.resolve(""))
		},
		call:  func(r *keptRig) (runtime.Answer, error) { return r.resolve("id") },
		after: func(r *keptRig) { r.leave() },
	},
	"FailTurn": {
		before: func(r *keptRig) { r.ok(r.fail("")) },
		call:   func(r *keptRig) (runtime.Answer, error) { return r.fail("id") },
		after:  func(r *keptRig) { r.leave() },
	},
}

// TestAnsweredIDsAreKept: a call that was answered once is answered the same for ever, also after a
// restart. This holds even if the call changed nothing then and would change something now.
func TestAnsweredIDsAreKept(t *testing.T) {
	t.Parallel()
	for kind := machine.CmdStart; kind <= machine.CmdWriteOutput; kind++ {
		switch kind {
		case machine.CmdFireTimer, machine.CmdLoseTurn, machine.CmdLoseStep: // the engine's own
		default:
			if _, ok := kept[kind.String()]; !ok && kind.String() != "unknown" {
				t.Errorf("no row for %s", kind)
			}
		}
	}
	for name, tt := range kept {
		if tt == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &keptRig{rig: newRig(t)}
			start := r.start("s")
			r.run, r.token = start.RunID, start.Turn.Token
			tt.before(r)
			first, err := tt.call(r)
			if err != nil || first.Duplicate {
				t.Fatalf("first: %+v, %v", first, err)
			}
			tt.after(r)
			for range 2 {
				before := r.view(r.run).State
				again, err := tt.call(r)
				if err != nil || !again.Duplicate {
					t.Fatalf("again: %+v, %v", again, err)
				}
				sameAnswer(t, name, first, again)
				if now := r.view(r.run).State; now.Seq != before.Seq || now.Paused != before.Paused {
					t.Errorf("the repeat made records %d to %d", before.Seq+1, now.Seq)
				}
				r.restart()
			}
		})
	}
}

// TestTheSecondOfTwoDeciders: if two callers decide, the error to the second one names the record
// of the first decision, even if the second one lacks a right, a token or a lease. The error does
// not ask it to try again. A caller that may not see the run receives RUN_NOT_FOUND.
func TestTheSecondOfTwoDeciders(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	calls := map[string]func(*rig, runtime.RunRef, string) error{
		"EmitEvent": func(r *rig, run runtime.RunRef, token string) error {
			_, err := r.EmitEvent(ctx, runtime.EmitRequest{RunRef: run, Event: "Approved", ExpectedSeq: 1, TurnToken: token})
			return err
		},
		"SetArtifacts": func(r *rig, run runtime.RunRef, token string) error {
			_, err := r.SetArtifacts(ctx, runtime.ArtifactsRequest{RunRef: run, ExpectedSeq: 1, TurnToken: token})
			return err
		},
		"CompleteTurn": func(r *rig, run runtime.RunRef, token string) error {
			_, err := r.CompleteTurn(ctx, runtime.CompleteRequest{TurnCall: runtime.TurnCall{RunRef: run, TurnToken: token}, ExpectedSeq: 1})
			return err
		},
		"SendInput": func(r *rig, run runtime.RunRef, _ string) error {
			_, err := r.SendInput(ctx, runtime.InputRequest{RunRef: run, ExpectedSeq: 1, Parts: []machine.Part{{Kind: machine.PartText, Text: "late"}}})
			return err
		},
	}
	for _, execution := range []machine.Execution{machine.Caller, machine.Workers} {
		r := newRig(t)
		start := startRequest("s")
		start.Execution, start.State, start.Principal = execution, "gate", boss
		answer := r.startWith(start)
		run, old := answer.RunID, answer.Turn.Token
		won, err := r.EmitEvent(ctx, runtime.EmitRequest{RunRef: ref(run, approver), Event: "Rejected", ExpectedSeq: 1})
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range calls {
			for _, who := range []runtime.Principal{everyone, boss, driver, approver, reader} {
				for _, token := range []string{"", old, "invented"} {
					err := call(r, ref(run, who), token)
					refusal, _ := errors.AsType[*machine.Error](err)
					if reason(err) != "SEQ_MISMATCH" || refusal.Seq != won.State.VisitSeq {
						t.Errorf("%s by %s with token %q: %v", name, who.Name(), token, err)
					}
				}
				row, err := r.ConflictRecord(ctx, ref(run, who), won.State.VisitSeq)
				if tr, ok := row.Record.Body.(*machine.Transition); err != nil || !ok || tr.Event != "Rejected" || row.Record.Principal != approver.Name() || row.Record.At == 0 {
					t.Errorf("the winner, told to %s: %+v, %v", who.Name(), row, err)
				}
			}
			wantReason(t, call(r, ref(run, nobody), ""), "RUN_NOT_FOUND")
		}
		_, err = r.ConflictRecord(ctx, ref(run, nobody), won.State.VisitSeq)
		wantReason(t, err, "RUN_NOT_FOUND")
	}
}
