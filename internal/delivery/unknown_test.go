package delivery_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestOnUnknown: an agent that executes a repeated message again gets a message once, unless on_unknown in the
// pack is retry. This holds if the answer is lost, if the sidecar stops before the answer, and if the agent
// loses its task.
func TestOnUnknown(t *testing.T) {
	t.Parallel()
	for _, broken := range []struct {
		name string
		// breaks makes the outcome of the agent's work unknown.
		breaks func(*rig)
	}{
		{"the answer is lost", func(r *rig) {
			var once atomic.Bool
			r.agent.lostAnswer = func(call string) error {
				if call == "send" && once.CompareAndSwap(false, true) {
					return errUnreachable
				}
				return nil
			}
			r.delegate("work")
		}},
		{"the sidecar dies before the answer", func(r *rig) {
			sent, dead := make(chan struct{}), r.life.Done()
			var once atomic.Bool
			r.agent.lostAnswer = func(call string) error {
				if call == "send" && once.CompareAndSwap(false, true) {
					r.store.Crash()
					close(sent)
					// A stopped process sends nothing more, even where a repeat is allowed.
					<-dead
					return errUnreachable
				}
				return nil
			}
			r.delegate("work")
			<-sent
			r.restart()
		}},
		{"the agent forgets its task", func(r *rig) {
			var once atomic.Bool
			r.agent.fault = func(call string) error {
				if call == "follow" && once.CompareAndSwap(false, true) {
					r.agent.mu.Lock()
					defer r.agent.mu.Unlock()
					clear(r.agent.tasks)
				}
				return nil
			}
			r.delegate("work")
		}},
	} {
		for _, word := range []string{"return", "escalate", "retry"} {
			t.Run(broken.name+", "+word, func(t *testing.T) {
				t.Parallel()
				onUnknown(t, broken.breaks, word)
			})
		}
	}
}

func onUnknown(t *testing.T, breaks func(*rig), word string) {
	t.Helper()
	a := newAgent(func(n int, m machine.AgentMessage) machine.AgentTask {
		if n == 1 {
			return machine.AgentTask{State: machine.AgentWorking}
		}
		task := doneOutcome(n, m)
		task.ID = "task-second"
		return task
	})
	a.repeats = true
	r := newRigOf(t, a, strings.Replace(pack, `{"attempts": 2}`, `{"attempts": 2, "on_unknown": "`+word+`"}`, 1))
	breaks(r)
	s := r.awaitState("the outcome", func(s *machine.State) bool { return s.Status.Terminal() || isAnswered(1)(s) })
	want := map[string]int{"return": 1, "escalate": 1, "retry": 2}[word]
	if got := a.messages(); len(got) != want {
		t.Errorf("the agent worked %d times, want %d: %+v", len(got), want, got)
	}
	switch step := s.Steps; {
	case word == "escalate" && s.Status != machine.Escalated:
		t.Errorf("the run is %v", s.Status)
	case word == "return" && (s.Status.Terminal() || step[0].Status != machine.StepStatusError):
		t.Errorf("the run is %v with %+v", s.Status, step)
	case word == "retry" && (s.Status.Terminal() || step[0].Status != machine.StepStatusOK):
		t.Errorf("the run is %v with %+v", s.Status, step)
	}
}

// TestUnsentIsNotUnknown: the outbox sends a message again that certainly did not arrive, until it arrives.
func TestUnsentIsNotUnknown(t *testing.T) {
	t.Parallel()
	a := newAgent(doneOutcome)
	a.repeats = true
	var tries atomic.Int32
	a.fault = func(string) error {
		if tries.Add(1) < 3 {
			return &machine.AgentFault{Kind: machine.AgentUnreachable, Code: "AGENT_UNREACHABLE", Message: "down", Unsent: true}
		}
		return nil
	}
	r := newRigOf(t, a, pack)
	r.stop()
	r.giveUp = 1 << 40
	r.open()
	r.delegate("work")
	s := r.awaitState("the answer", isAnswered(1))
	if got := a.messages(); len(got) != 1 || s.Steps[0].Status != machine.StepStatusOK {
		t.Errorf("the agent took %d messages, the step is %+v", len(got), s.Steps[0])
	}
}

// TestAnswerIsGivenOnce: an answer may or may not have arrived. The outbox does not send it again to an agent
// that would take it twice. If the agent still asks, its question waits for an answer again.
func TestAnswerIsGivenOnce(t *testing.T) {
	t.Parallel()
	a := newAgent(func(int, machine.AgentMessage) machine.AgentTask {
		return machine.AgentTask{State: machine.AgentAsks, Message: text("which?")}
	})
	a.repeats = true
	r := newRig(t, a)
	r.delegate("work")
	asks := func(s *machine.State) bool { return s.Awaiting == machine.AwaitInput }
	r.awaitState("the question", asks)
	a.mu.Lock()
	a.lostAnswer = func(call string) error {
		if call == "send" {
			return errUnreachable
		}
		return nil
	}
	a.mu.Unlock()
	if _, err := r.SendInput(r.ctx, runtime.InputRequest{RunRef: r.ref(), Parts: text("that one"), Step: 1}); err != nil {
		t.Fatal(err)
	}
	r.awaitState("the question again", asks)
	if got := a.messages(); len(got) != 2 || got[1].Parts[0].Text != "that one" {
		t.Errorf("the agent took %+v", got)
	}
}

// TestAnnouncedIsNotSentToAnother: a message was announced to an agent that executes a repeated message again.
// If another agent later answers at the same address, it does not get the message, although it declares that
// it takes repeats once.
func TestAnnouncedIsNotSentToAnother(t *testing.T) {
	t.Parallel()
	a := newAgent(doneOutcome)
	a.repeats = true
	r := newRig(t, a)
	sent, dead := make(chan struct{}), r.life.Done()
	a.lostAnswer = func(string) error {
		r.store.Crash()
		close(sent)
		<-dead
		return errUnreachable
	}
	r.delegate("work")
	<-sent
	r.stop()
	a.forget()
	r.store = r.store.Reopen()
	r.open()
	s := r.awaitState("the outcome", isAnswered(1))
	if got := a.messages(); len(got) != 1 || s.Steps[0].Status != machine.StepStatusError {
		t.Errorf("the agents worked %d times, want 1; the step is %+v", len(got), s.Steps[0])
	}
}

// TestAnnouncedIsNotSentToCallItOff: a cancellation does not send the announced message to the other agent
// either, to find the task that it became.
func TestAnnouncedIsNotSentToCallItOff(t *testing.T) {
	t.Parallel()
	a := newAgent(doneOutcome)
	a.repeats = true
	r := newRig(t, a)
	sent, dead := make(chan struct{}), r.life.Done()
	a.lostAnswer = func(string) error {
		close(sent)
		<-dead
		return errUnreachable
	}
	r.delegate("work")
	<-sent
	a.forget()
	if _, err := r.CancelRun(r.ctx, runtime.ControlRequest{RunRef: r.ref()}); err != nil {
		t.Fatal(err)
	}
	r.untilSent(machine.OutboxCancel)
	if got := a.messages(); len(got) != 1 {
		t.Errorf("the agents worked %d times, want 1: %+v", len(got), got)
	}
}

// forget turns the agent into another one. That agent knows no task and declares that sends are idempotent.
func (a *agent) forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.repeats, a.lostAnswer = false, func(string) error { return nil }
	clear(a.byID)
	clear(a.tasks)
}

// TestBegunMayHaveHappened: if an agent has begun, its work may have happened. A result that cannot be passed
// on, or a lost connection, then leaves the outcome unknown. The failure is definite only if the agent
// certainly did not begin.
func TestBegunMayHaveHappened(t *testing.T) {
	t.Parallel()
	completed := func(output string) func(*agent) {
		return func(a *agent) {
			a.play = func(int, machine.AgentMessage) machine.AgentTask {
				return machine.AgentTask{State: machine.AgentCompleted, Output: text(output)}
			}
		}
	}
	fault := func(f *machine.AgentFault) func(*agent) {
		return func(a *agent) { a.fault = func(string) error { return f } }
	}
	for _, tt := range []struct {
		name    string
		spoil   func(*agent)
		unknown bool
	}{
		{"its result is too large to be told", completed(strings.Repeat("x", 10<<20)), true},
		{"its result is more than its artifact takes", completed(strings.Repeat("x", 100<<10)), true},
		{"nobody knows whether the message arrived", fault(errUnreachable), true},
		{"it was never reached", fault(&machine.AgentFault{Kind: machine.AgentUnreachable, Code: "AGENT_UNREACHABLE", Message: "down", Unsent: true}), false},
		{"its answer is too large to be read", fault(&machine.AgentFault{Kind: machine.AgentRefuses, Code: "AGENT_RESULT_TOO_LARGE", Message: "8 MiB"}), true},
		{"it refuses", fault(&machine.AgentFault{Kind: machine.AgentRefuses, Code: "AGENT_REFUSED", Message: "no"}), false},
		{"it is lost while it works", func(a *agent) {
			a.play = func(int, machine.AgentMessage) machine.AgentTask {
				return machine.AgentTask{State: machine.AgentWorking}
			}
			a.fault = func(call string) error {
				if call == "send" {
					return nil
				}
				return &machine.AgentFault{Kind: machine.AgentUnreachable, Code: "AGENT_UNREACHABLE", Message: "down", Unsent: true}
			}
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAgent(doneOutcome)
			tt.spoil(a)
			words := strings.Replace(pack, `{"helper": {"attempts": 2}}`, `{"helper": {"attempts": 2, "on_unknown": "escalate"}}, "result_bindings": {"helper": "found"}`, 1)
			words = strings.Replace(words, `"prompt_task": "lead", "on_event"`, `"prompt_task": "lead", "artifacts": {"found": {"type": "application/json", "description": "What came of it"}}, "on_event"`, 1)
			r := newRigOf(t, a, words)
			r.delegate("work")
			s := r.awaitState("the outcome", func(s *machine.State) bool { return s.Status.Terminal() || isAnswered(1)(s) })
			if (s.Status == machine.Escalated) != tt.unknown || len(a.messages()) > 1 {
				t.Errorf("the run is %v after %d messages, %+v", s.Status, len(a.messages()), s.Steps)
			}
		})
	}
}
