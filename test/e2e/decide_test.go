package e2e

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// decidePack waits for a decision that leads to a state which no caller from outside can leave.
const decidePack = `{
  "id": "decide", "name": "Decide", "version": "1.0.0",
  "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {"p": {"id": "p", "name": "P", "version": "1.0.0", "system_template": "Decide."}},
  "workflow": {
    "version": 2, "entry": "gate",
    "engine": {"budget": {"max_total_visits": 3}, "x_pawl": {"outcome": {"dropped": "failed"}}},
    "states": {
      "gate": {"prompt_task": "p", "orchestration": "external", "on_event": {"Approved": "work", "Rejected": "dropped"}},
      "work": {"prompt_task": "p", "on_event": {"Back": "gate"}},
      "dropped": {"prompt_task": "p", "terminal": true}
    }
  }
}`

// TestDecisionsOverRestarts checks that a repeated request gets the same answer after SIGKILL, that
// a late repeat changes nothing, that the second of two deciders gets the first decision, and that
// the end at a bound names the lost event.
func TestDecisionsOverRestarts(t *testing.T) {
	t.Parallel()
	s, ctx := newSidecar(t), t.Context()
	s.start()
	conn := s.dial()
	runs := pawlv1.NewRunServiceClient(conn)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := pawlv1.NewPackServiceClient(conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: []byte(decidePack)})
	must(err)
	started, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "decide", Execution: pawlv1.Execution_EXECUTION_CALLER})
	must(err)
	run := started.GetRun().GetRunId()
	resume := &pawlv1.ResumeRunRequest{RunId: run, RequestId: "resume"}
	_, err = runs.ResumeRun(ctx, resume)
	must(err)
	_, err = runs.PauseRun(ctx, &pawlv1.PauseRunRequest{RunId: run, RequestId: "pause"})
	must(err)
	s.kill()
	s.start()
	late, err := runs.ResumeRun(ctx, resume)
	must(err)
	now, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: run})
	must(err)
	if !late.GetDuplicate() || !now.GetRun().GetPaused() {
		t.Errorf("the late repeat answers %v and leaves paused=%v", late, now.GetRun().GetPaused())
	}
	_, err = runs.ResumeRun(ctx, &pawlv1.ResumeRunRequest{RunId: run, RequestId: "another"})
	must(err)

	decide := func() (*pawlv1.EmitEventResponse, error) {
		return runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: run, Event: "Approved", ExpectedSeq: 1})
	}
	won, err := decide()
	must(err)
	_, err = decide()
	winner, reason := &pawlv1.Record{}, ""
	for _, d := range status.Convert(err).Details() {
		switch d := d.(type) {
		case *pawlv1.Record:
			winner = d
		case *errdetails.ErrorInfo:
			reason = d.GetReason()
		}
	}
	if reason != "SEQ_MISMATCH" || winner.GetSeq() != won.GetSeq() || winner.GetTransition().GetEvent() != "Approved" || winner.GetPrincipal() == "" || winner.GetAt() == nil {
		t.Errorf("the second decider hears %v, winner %v", err, winner)
	}

	turn, err := runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: run})
	must(err)
	_, err = runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: run, Event: "Back", TurnToken: turn.GetTurn().GetToken()})
	must(err)
	lost, err := runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: run, Event: "Rejected"})
	must(err)
	if end := lost.GetEnded().GetEnded(); end.GetReason() != "max_total_visits" || end.GetEvent() != "Rejected" || end.GetIntendedState() != "dropped" {
		t.Errorf("the end is %v", end)
	}
	givenUp, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "decide", Execution: pawlv1.Execution_EXECUTION_CALLER})
	must(err)
	other := givenUp.GetRun().GetRunId()
	_, err = runs.EmitEvent(ctx, &pawlv1.EmitEventRequest{RunId: other, Event: "Rejected"})
	must(err)
	turn, err = runs.GetTurn(ctx, &pawlv1.GetTurnRequest{RunId: other})
	must(err)
	done, err := runs.CompleteTurn(ctx, &pawlv1.CompleteTurnRequest{
		RunId: other, TurnToken: turn.GetTurn().GetToken(), TurnSeq: turn.GetTurn().GetTurnSeq(), Attempt: turn.GetTurn().GetAttempt(),
	})
	must(err)
	if end := done.GetEnded().GetEnded(); end.GetStatus() != pawlv1.RunStatus_RUN_STATUS_FAILED || end.GetReason() != "outcome:dropped" {
		t.Errorf("the declared failing end is %v", end)
	}
	s.kill()
	s.start()
	proof, err := runs.VerifyRun(ctx, &pawlv1.VerifyRunRequest{RunId: run})
	must(err)
	if !proof.GetOk() {
		t.Errorf("the journal: %v", proof)
	}
}
