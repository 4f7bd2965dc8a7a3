package delivery_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// approvedPack is the pack in which a person approves each call of the agent.
var approvedPack = strings.Replace(pack, `{"attempts": 2}`, `{"approve": "always"}`, 1)

const edited = `{"message":"wire 1"}`

// waits returns the call that waits for a decision.
func (r *rig) waits() *machine.ToolStep {
	r.t.Helper()
	s := r.awaitState("the question", func(s *machine.State) bool { return len(s.Steps) == 1 && s.Steps[0].HeldForApproval() })
	return &s.Steps[0]
}

// decide approves the call that waits. With a payload it edits the call. If expires is 0, the approval does
// not expire.
func (r *rig) decide(payload string, expires time.Duration) {
	r.t.Helper()
	c := machine.DecideStep{Step: 1, Digest: r.waits().Approval.Digest, Verdict: machine.Approved}
	if payload != "" {
		c.Verdict, c.Payload = machine.Edited, []byte(payload)
	}
	if expires != 0 {
		c.Expires = time.Now().Add(expires).UnixNano()
	}
	if _, err := r.Apply(r.ctx, runtime.Request{RunRef: r.ref(), Command: c}); err != nil {
		r.t.Fatal(err)
	}
}

// patiently starts the process again with an outbox that keeps trying for an hour.
func (r *rig) patiently() {
	r.stop()
	r.giveUp = time.Hour
	r.open()
}

var (
	errUnsent = &machine.AgentFault{Kind: machine.AgentUnreachable, Code: "AGENT_UNREACHABLE", Message: "down", Unsent: true}
	errCard   = &machine.AgentFault{Kind: machine.AgentUnreachable, Code: "AGENT_CARD", Message: "no card", Unsent: true}
)

func working(int, machine.AgentMessage) machine.AgentTask {
	return machine.AgentTask{State: machine.AgentWorking}
}

// TestCancelSendsNothingNew: a cancellation begins no work. An agent to which the message was never sent does
// not get it. An agent that may have the message gets the approved message again, without a change.
func TestCancelSendsNothingNew(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		// away: the agent cannot be found. unsent: the message does not arrive. lost: the message arrives, and
		// its answer is lost.
		away, unsent, lost bool
		payload            string
		want               int
	}{
		"never sent":         {away: true, want: 0},
		"edited, never sent": {away: true, payload: edited, want: 0},
		"nothing arrived":    {unsent: true, payload: edited, want: 0},
		"it may have it":     {lost: true, payload: edited, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(working)
			var away, unsent, lost atomic.Bool
			away.Store(tt.away)
			unsent.Store(tt.unsent)
			lost.Store(tt.lost)
			tried := make(chan struct{}, 1)
			meets := func(is *atomic.Bool, err error) error {
				if !is.Load() {
					return nil
				}
				select {
				case tried <- struct{}{}:
				default:
				}
				return err
			}
			a.unreachable = func() error { return meets(&away, errCard) }
			a.fault = func(string) error {
				if unsent.Load() {
					away.Store(true) // so that nothing is announced again
				}
				return meets(&unsent, errUnsent)
			}
			a.lostAnswer = func(string) error { return meets(&lost, errUnreachable) }
			r := newRigOf(t, a, approvedPack)
			r.patiently()
			r.delegate("wire 1000")
			r.decide(tt.payload, 0)
			<-tried
			if tt.unsent {
				r.awaitState("the note that nothing arrived", func(s *machine.State) bool {
					return s.Steps[0].Remote != nil && s.Steps[0].Remote.Sent == machine.SentNot
				})
			}
			if _, err := r.CancelRun(r.ctx, runtime.ControlRequest{RunRef: r.ref()}); err != nil {
				t.Fatal(err)
			}
			away.Store(false)
			unsent.Store(false)
			lost.Store(false)
			r.untilSent(machine.OutboxCancel)
			got := a.messages()
			if len(got) != tt.want || tt.want > 0 && len(a.ended) == 0 {
				t.Fatalf("the agent took %+v, want %d messages; it was told of the end of %q", got, tt.want, a.ended)
			}
			for _, m := range got {
				if m.Parts[0].Text != "wire 1" {
					t.Errorf("the agent took %+v, which was not approved", m)
				}
			}
		})
	}
}

// TestCancelKeepsToLists: an agent that does not observe lists of tools does not get the message of a run with
// such a list. A cancellation does not send it either, to learn which task the message became.
func TestCancelKeepsToLists(t *testing.T) {
	t.Parallel()
	a := newAgent(working)
	var lost atomic.Bool
	lost.Store(true)
	a.lostAnswer = func(string) error {
		if lost.Load() {
			return errUnreachable
		}
		return nil
	}
	r := newRigOf(t, a, strings.Replace(pack, `"tools": ["helper", "run"]`, `"tools": ["helper", "run"], "tool_policy": {"blocklist": ["run"]}`, 1))
	r.patiently()
	r.delegate("work")
	if err := a.await(r.ctx, func() bool { return len(a.taken) == 1 }); err != nil {
		t.Fatal(err)
	}
	r.stop()
	a.forget()
	a.unbound = true
	r.open()
	if _, err := r.CancelRun(r.ctx, runtime.ControlRequest{RunRef: r.ref()}); err != nil {
		t.Fatal(err)
	}
	lost.Store(false)
	r.untilSent(machine.OutboxCancel)
	if got := a.messages(); len(got) != 1 {
		t.Errorf("the agents took %d messages, want 1: %+v", len(got), got)
	}
}

// TestSentDoesNotLapse: the approval of a delegation is used up once the message may be with its agent. The
// outbox then sends the message again without a change, even after the approval has expired.
func TestSentDoesNotLapse(t *testing.T) {
	t.Parallel()
	a := newAgent(doneOutcome)
	var over atomic.Int64
	late := make(chan struct{})
	var once atomic.Bool
	a.lostAnswer = func(string) error {
		if at := over.Load(); at == 0 || time.Now().UnixNano() <= at {
			return errUnreachable
		}
		if once.CompareAndSwap(false, true) {
			close(late)
		}
		return nil
	}
	r := newRigOf(t, a, approvedPack)
	r.patiently()
	r.delegate("wire 1000")
	r.decide(edited, 300*time.Millisecond)
	s := r.awaitState("the decision", func(s *machine.State) bool { return !s.Steps[0].HeldForApproval() })
	if err := a.await(r.ctx, func() bool { return len(a.taken) == 1 }); err != nil {
		t.Fatal(err)
	}
	over.Store(s.Steps[0].Approval.Expires)
	select {
	case <-late:
	case <-r.ctx.Done():
		t.Fatal("the message is not sent again behind the end of its approval")
	}
	s = r.awaitState("the answer", isAnswered(1))
	if got := a.messages(); len(got) != 1 || got[0].Parts[0].Text != "wire 1" || s.Steps[0].Status != machine.StepStatusOK {
		t.Errorf("the agent took %+v, and the step is %+v", got, s.Steps[0])
	}
}

// TestUnsentLapses: if nothing has arrived at the agent when the approval of a delegation expires, the call is
// held for approval again. This holds for an agent that executes a repeated message again and for one that
// does not.
func TestUnsentLapses(t *testing.T) {
	t.Parallel()
	for name, repeats := range map[string]bool{"idempotent": false, "once": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(doneOutcome)
			a.repeats = repeats
			var up atomic.Bool
			a.fault = func(string) error {
				if up.Load() {
					return nil
				}
				return errUnsent
			}
			r := newRigOf(t, a, approvedPack)
			r.patiently()
			r.delegate("wire 1000")
			r.decide("", 300*time.Millisecond)
			r.awaitState("the note that nothing arrived", func(s *machine.State) bool { return s.Steps[0].Remote != nil })
			r.awaitState("the hold", func(s *machine.State) bool { return s.Steps[0].Approval.Verdict == machine.Expired })
			up.Store(true)
			r.decide("", 0)
			r.awaitState("the answer", isAnswered(1))
			if got := a.messages(); len(got) != 1 {
				t.Errorf("the agent took %d messages, want 1", len(got))
			}
		})
	}
}

// TestPausedSendsNothing: a delegation of a paused run is sent when the run goes on.
func TestPausedSendsNothing(t *testing.T) {
	t.Parallel()
	for name, words := range map[string]string{"approved": approvedPack, "asked for": pack} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(doneOutcome)
			var away atomic.Bool
			away.Store(true)
			a.unreachable = func() error {
				if away.Load() {
					return errCard
				}
				return nil
			}
			r := newRigOf(t, a, words)
			r.patiently()
			r.delegate("work")
			if _, err := r.PauseRun(r.ctx, runtime.ControlRequest{RunRef: r.ref()}); err != nil {
				t.Fatal(err)
			}
			if words == approvedPack {
				r.decide("", 0)
			}
			rows, err := r.Delegations.Outbox(r.ctx, machine.OutboxDelegation, 1)
			if err != nil || len(rows) != 1 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			if del, err := r.Delegations.Delegation(r.ctx, rows[0]); err != nil || !del.Paused {
				t.Errorf("the delegation is not paused: %+v, %v", del, err)
			}
			if may, err := r.Delegations.Announce(r.ctx, rows[0], machine.Remote{Sent: machine.SentRepeatable}); err != nil || may {
				t.Errorf("it may be sent: %v, %v", may, err)
			}
			away.Store(false)
			a.mu.Lock()
			a.fault = func(call string) error {
				if view, err := r.GetRun(context.Background(), query.GetRunRequest{RunRef: r.ref()}); err != nil || view.State.Paused {
					t.Errorf("the agent is reached (%s) while the run is paused: %v", call, err)
				}
				return nil
			}
			a.mu.Unlock()
			if _, err := r.ResumeRun(r.ctx, runtime.ControlRequest{RunRef: r.ref()}); err != nil {
				t.Fatal(err)
			}
			if s := r.awaitState("the answer", isAnswered(1)); s.Steps[0].Status != machine.StepStatusOK || len(a.messages()) != 1 {
				t.Errorf("%d messages, %+v", len(a.messages()), s.Steps[0])
			}
		})
	}
}

// TestKeyOfWhatAnAgentMayHaveDone: an agent ended without success. If it may have done something, the business
// key of the call stays taken, and no attempt follows unless on_unknown in the pack is retry. If it did
// nothing, or if the call has no key, the failed call is tried again.
func TestKeyOfWhatAnAgentMayHaveDone(t *testing.T) {
	t.Parallel()
	ended := func(state machine.AgentState, status string, usage machine.Usage, metered bool) machine.AgentTask {
		return machine.AgentTask{State: state, Status: status, Usage: usage, Metered: metered}
	}
	worked := machine.Usage{ToolCalls: 1}
	for _, tt := range []struct {
		name     string
		task     machine.AgentTask
		words    string
		doubt    bool
		messages int
	}{
		{"failed", ended(machine.AgentFailed, "FAILED", worked, true), `"dedupe": ["message"]`, true, 1},
		{"failed, of others", ended(machine.AgentFailed, "", machine.Usage{}, false), `"dedupe": ["message"]`, true, 1},
		{"failed, may come twice", ended(machine.AgentFailed, "FAILED", worked, true), `"dedupe": ["message"], "on_unknown": "retry"`, true, 2},
		{"escalated", ended(machine.AgentFailed, "ESCALATED", worked, true), `"dedupe": ["message"]`, true, 1},
		{"escalated, may come twice", ended(machine.AgentFailed, "ESCALATED", worked, true), `"dedupe": ["message"], "on_unknown": "retry"`, true, 1},
		{"out of budget", ended(machine.AgentFailed, "BUDGET_EXHAUSTED", worked, true), `"dedupe": ["message"]`, true, 1},
		{"cancelled", ended(machine.AgentCancelled, "CANCELLED", worked, true), `"dedupe": ["message"]`, true, 1},
		{"rejected", ended(machine.AgentRejected, "FAILED", machine.Usage{InputTokens: 9}, true), `"dedupe": ["message"]`, false, 2},
		{"rejected, of others", ended(machine.AgentRejected, "", machine.Usage{}, false), `"dedupe": ["message"]`, false, 2},
		{"rejected behind a call", ended(machine.AgentRejected, "FAILED", worked, true), `"dedupe": ["message"]`, true, 1},
		{"failed without a key", ended(machine.AgentFailed, "FAILED", worked, true), `"timeout_sec": 60`, false, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(func(int, machine.AgentMessage) machine.AgentTask { return tt.task })
			r := newRigOf(t, a, strings.Replace(pack, `{"attempts": 2}`, `{"attempts": 2, `+tt.words+`}`, 1))
			r.delegate("wire 100")
			s := r.awaitState("the end", isAnswered(1))
			if got := len(a.messages()); got != tt.messages || s.Steps[0].Doubt != tt.doubt {
				t.Errorf("%d messages, want %d; in doubt %v, want %v", got, tt.messages, s.Steps[0].Doubt, tt.doubt)
			}
		})
	}
}

// TestUnsentIsNotAllowed: a message waits while its agent is removed from the operator's allowlist. It is not
// sent. A message that may be with the agent is sent again without a change.
func TestUnsentIsNotAllowed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pack string
		// behind: the call is approved after the restart. lost: the message arrived, and its answer is lost.
		behind, lost bool
		want         machine.StepStatus
	}{
		"approved before":             {pack: approvedPack, want: machine.StepStatusError},
		"approved behind the restart": {pack: approvedPack, behind: true, want: machine.StepStatusError},
		"asked for":                   {pack: pack, want: machine.StepStatusError},
		"it may have arrived":         {pack: approvedPack, lost: true, want: machine.StepStatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(doneOutcome)
			var away, lost atomic.Bool
			away.Store(!tt.lost)
			lost.Store(tt.lost)
			a.unreachable = func() error {
				if away.Load() {
					return errCard
				}
				return nil
			}
			a.lostAnswer = func(string) error {
				if lost.Load() {
					return errUnreachable
				}
				return nil
			}
			r := newRigOf(t, a, tt.pack)
			r.patiently()
			r.delegate("wire 1000")
			if tt.pack == approvedPack && !tt.behind {
				r.decide("", 0)
			}
			if tt.lost {
				if err := a.await(r.ctx, func() bool { return len(a.taken) == 1 }); err != nil {
					t.Fatal(err)
				}
			}
			r.allow = []string{}
			r.restart()
			away.Store(false)
			lost.Store(false)
			if tt.behind {
				r.decide("", 0)
			}
			s := r.awaitState("the answer", isAnswered(1))
			if step, sent := s.Steps[0], len(a.messages()); step.Status != tt.want || (sent == 1) != tt.lost {
				t.Errorf("%+v, and the agent took %d messages", step, sent)
			}
			if got := r.steps()[0].Error.Code; (got == machine.ToolNotAllowed) == tt.lost {
				t.Errorf("answered with %q", got)
			}
		})
	}
}
