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

// approvedPack is the pack whose calls of the agent a person approves.
var approvedPack = strings.Replace(pack, `{"attempts": 2}`, `{"approve": "always"}`, 1)

const edited = `{"message":"wire 1"}`

// waits is the call that waits for a decision.
func (r *rig) waits() *machine.ToolStep {
	r.t.Helper()
	s := r.until("the question", func(s *machine.State) bool { return len(s.Steps) == 1 && s.Steps[0].HeldForApproval() })
	return &s.Steps[0]
}

// decide approves the call that waits, or with a payload edits it; expires 0: whenever.
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

// patiently starts the process again with an outbox that does not give up.
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

// TestCancelSendsNothingNew: what calls a delegation off begins nothing. An agent that was never
// sent the message is sent none, and one that may have it the very message that was approved.
func TestCancelSendsNothingNew(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		// away: the agent cannot be found; unsent, lost: what meets the message.
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
			a.away = func() error { return meets(&away, errCard) }
			a.fault = func(string) error {
				if unsent.Load() {
					away.Store(true) // nothing is announced again
				}
				return meets(&unsent, errUnsent)
			}
			a.lost = func(string) error { return meets(&lost, errUnreachable) }
			r := newRigOf(t, a, approvedPack)
			r.patiently()
			r.delegate("wire 1000")
			r.decide(tt.payload, 0)
			<-tried
			if tt.unsent {
				r.until("the note that nothing arrived", func(s *machine.State) bool {
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

// TestCancelKeepsToLists: an agent that keeps to no list is not sent the message of a run that has
// some, also not to learn which task it became.
func TestCancelKeepsToLists(t *testing.T) {
	t.Parallel()
	a := newAgent(working)
	var lost atomic.Bool
	lost.Store(true)
	a.lost = func(string) error {
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

// TestSentDoesNotLapse: the approval of a delegation that may be with its agent is over once it is
// used: the message is sent again as it was, whenever that is.
func TestSentDoesNotLapse(t *testing.T) {
	t.Parallel()
	a := newAgent(done)
	var over atomic.Int64
	late := make(chan struct{})
	var once atomic.Bool
	a.lost = func(string) error {
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
	s := r.until("the decision", func(s *machine.State) bool { return !s.Steps[0].HeldForApproval() })
	if err := a.await(r.ctx, func() bool { return len(a.taken) == 1 }); err != nil {
		t.Fatal(err)
	}
	over.Store(s.Steps[0].Approval.Expires)
	select {
	case <-late:
	case <-r.ctx.Done():
		t.Fatal("the message is not sent again behind the end of its approval")
	}
	s = r.until("the answer", answered(1))
	if got := a.messages(); len(got) != 1 || got[0].Parts[0].Text != "wire 1" || s.Steps[0].Status != machine.StepStatusOK {
		t.Errorf("the agent took %+v, and the step is %+v", got, s.Steps[0])
	}
}

// TestUnsentLapses: a delegation of which nothing arrived is held again when its approval is over,
// whatever the agent does with what it is sent again.
func TestUnsentLapses(t *testing.T) {
	t.Parallel()
	for name, repeats := range map[string]bool{"idempotent": false, "once": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(done)
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
			r.until("the note that nothing arrived", func(s *machine.State) bool { return s.Steps[0].Remote != nil })
			r.until("the hold", func(s *machine.State) bool { return s.Steps[0].Approval.Verdict == machine.Expired })
			up.Store(true)
			r.decide("", 0)
			r.until("the answer", answered(1))
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
			a := newAgent(done)
			var away atomic.Bool
			away.Store(true)
			a.away = func() error {
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
			if s := r.until("the answer", answered(1)); s.Steps[0].Status != machine.StepStatusOK || len(a.messages()) != 1 {
				t.Errorf("%d messages, %+v", len(a.messages()), s.Steps[0])
			}
		})
	}
}

// TestKeyOfWhatAnAgentMayHaveDone: of an agent that ended without success the business key stays,
// and no attempt follows, unless the agent did nothing, or the pack wants another one. Without a
// key a failure is tried again as it was.
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
			s := r.until("the end", answered(1))
			if got := len(a.messages()); got != tt.messages || s.Steps[0].Doubt != tt.doubt {
				t.Errorf("%d messages, want %d; in doubt %v, want %v", got, tt.messages, s.Steps[0].Doubt, tt.doubt)
			}
		})
	}
}

// TestUnsentIsNotAllowed: a message that waited while the agent left the operator's allowlist is
// not sent; one that may be with the agent is sent again as it was.
func TestUnsentIsNotAllowed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pack string
		// behind: it is approved after the restart; lost: it arrived, and nothing came back.
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
			a := newAgent(done)
			var away, lost atomic.Bool
			away.Store(!tt.lost)
			lost.Store(tt.lost)
			a.away = func() error {
				if away.Load() {
					return errCard
				}
				return nil
			}
			a.lost = func(string) error {
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
			s := r.until("the answer", answered(1))
			if step, sent := s.Steps[0], len(a.messages()); step.Status != tt.want || (sent == 1) != tt.lost {
				t.Errorf("%+v, and the agent took %d messages", step, sent)
			}
			if got := r.steps()[0].Error.Code; (got == machine.ToolNotAllowed) == tt.lost {
				t.Errorf("answered with %q", got)
			}
		})
	}
}
