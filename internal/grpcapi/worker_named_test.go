package grpcapi

import (
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

func beat(tokens ...string) *pawlv1.WorkRequest {
	return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Heartbeat{Heartbeat: &pawlv1.WorkerHeartbeat{Tokens: tokens}}}
}

// TestAForgottenTurnComesBack: the next turn of a run may be assigned before the receipt
// of the completion before. A worker by the stubs that keeps its work by the run forgets
// the new turn at that receipt. It goes on with its heartbeats, which name another turn or
// none; the lease runs out, and the turn is assigned again.
func TestAForgottenTurnComesBack(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]bool{"names no turn": false, "names another turn": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ctx := newRig(t), testContext(t)
			r.loop()
			r.register(ctx)
			h := r.registerWorker(ctx, registration("w1"))
			r.startWorkers(ctx)
			first := h.turn()
			if _, err := h.ask(completion(first, "Again")); err != nil {
				t.Fatal(err)
			}
			forgotten := h.turn()
			var named []string
			if other {
				r.startWorkers(ctx)
				h.send(&pawlv1.WorkRequest{Credits: &pawlv1.WorkCredits{Turns: 1}})
				named = append(named, h.turn().GetLease().GetToken())
			}
			r.clock.AwaitAlarm(time.Minute)
			for range 2 {
				r.clock.Advance(29 * time.Second)
				got, err := h.ask(beat(named...))
				if err != nil || len(got.GetHeartbeat().GetLeases()) != len(named) || len(got.GetHeartbeat().GetLost()) != 0 {
					t.Fatalf("a heartbeat: %v, %v", got, err)
				}
			}
			r.clock.Advance(2 * time.Second)
			h.until("revocation", func() bool { return len(h.revoked) > 0 })
			got := h.revoked[0]
			if got.GetCause() != pawlv1.RevokeCause_REVOKE_CAUSE_LEASE_EXPIRED || got.GetTurn().GetToken() != forgotten.GetLease().GetToken() {
				t.Fatalf("revoked %v", got)
			}
			h.send(&pawlv1.WorkRequest{Credits: &pawlv1.WorkCredits{Turns: 1}})
			r.clock.AwaitAlarm(10 * time.Second)
			r.clock.Advance(10 * time.Second)
			again := h.turn()
			if again.GetLease().GetRunId() != forgotten.GetLease().GetRunId() || again.GetLease().GetAttempt() != 2 {
				t.Fatalf("assigned again: %v", again.GetLease())
			}
		})
	}
}

// TestALeaseThatItsWorkerEndedIsNotLost: a worker sends a heartbeat before it gets the receipt of a request
// that ends a turn. The heartbeat still names this turn. The answer does not list the turn as lost.
func TestALeaseThatItsWorkerEndedIsNotLost(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*pawlv1.TurnAssignment) *pawlv1.WorkRequest{
		"completed": func(a *pawlv1.TurnAssignment) *pawlv1.WorkRequest { return completion(a, "Again") },
		"failed": func(a *pawlv1.TurnAssignment) *pawlv1.WorkRequest {
			l := a.GetLease()
			return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_FailTurn{FailTurn: &pawlv1.FailTurnRequest{
				RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
				Error: &pawlv1.Fault{Code: "E", Message: "e"}, Retryable: true,
			}}}
		},
		"suspended": func(a *pawlv1.TurnAssignment) *pawlv1.WorkRequest {
			l := a.GetLease()
			return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_SuspendTurn{SuspendTurn: &pawlv1.SuspendTurnRequest{
				RunId: l.GetRunId(), TurnSeq: l.GetTurnSeq(), Attempt: l.GetAttempt(), TurnToken: l.GetToken(),
			}}}
		},
		"given back": func(a *pawlv1.TurnAssignment) *pawlv1.WorkRequest {
			return &pawlv1.WorkRequest{Item: &pawlv1.WorkRequest_Release{Release: &pawlv1.WorkRelease{
				Work: &pawlv1.WorkRelease_TurnToken{TurnToken: a.GetLease().GetToken()},
			}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ctx := newRig(t), testContext(t)
			r.register(ctx)
			reg := registration("w1")
			reg.StepCapacity, reg.Tools = 0, nil
			h := r.registerWorker(ctx, reg)
			r.startWorkers(ctx)
			a := h.turn()
			if _, err := h.ask(stepRequest(a, "run_tests", `{"path": "."}`)); err != nil {
				t.Fatal(err)
			}
			if _, err := h.ask(end(a)); err != nil {
				t.Fatal(err)
			}
			got, err := h.ask(beat(a.GetLease().GetToken(), "bogus"))
			if err != nil || len(got.GetHeartbeat().GetLeases()) != 0 || len(got.GetHeartbeat().GetLost()) != 1 || got.GetHeartbeat().GetLost()[0] != "bogus" {
				t.Fatalf("a heartbeat: %v, %v", got, err)
			}
		})
	}
}
