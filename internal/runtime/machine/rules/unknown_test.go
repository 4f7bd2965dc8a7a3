package rules

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// modelRun is a run whose turn asks a model.
type modelRun struct {
	*ledger
	at int64
}

func newTalk(t *testing.T, unknown *machine.OnFault, text string) *modelRun {
	t.Helper()
	g, err := parseGraph("entry a\nstate a: Go->a\nretry attempts=2 initial=1s\n" + text)
	if err != nil {
		t.Fatal(err)
	}
	g.ModelCalls = &machine.Calls{Timeout: 10 * time.Second, OnUnknown: unknown}
	talk := &modelRun{ledger: newLedger(t, g), at: epoch}
	talk.step(machine.Start{RunID: "R", Execution: machine.Caller})
	return talk
}

func (k *modelRun) try(c machine.Command) (machine.Result, error) {
	return k.apply(machine.Input{At: k.at, Principal: "app", Command: c, Semantics: machine.Current})
}

func (k *modelRun) step(c machine.Command) machine.Result {
	k.t.Helper()
	r, err := k.try(c)
	if err != nil {
		k.t.Fatalf("%T: %v", c, err)
	}
	return r
}

// delivery is the n-th token of the turn.
func delivery(n int) *machine.Assignment { return &machine.Assignment{Delivery: n, At: epoch} }

func (k *modelRun) requestModel(attempt int, by *machine.Assignment) machine.Result {
	k.t.Helper()
	return k.step(machine.RequestModel{TurnSeq: 1, Attempt: attempt, Round: 1, Model: &machine.ModelRequest{Model: "m"}, Assigned: by})
}

// answerOfExecution returns the answer of an execution to an attempt, with a usage of 7 tokens.
func answerOfExecution(turnAttempt, attempt int, by *machine.Assignment) machine.AnswerModel {
	return machine.AnswerModel{
		TurnSeq: 1, TurnAttempt: turnAttempt, Step: 1, Attempt: attempt, Answer: &machine.ModelAnswer{},
		Usage: machine.Usage{InputTokens: 5, OutputTokens: 2}, Assigned: by,
	}
}

func (k *modelRun) stepTimer() machine.FireTimer {
	return machine.FireTimer{Kind: machine.TimerStep, Step: 1, Due: k.state.Steps[0].Deadline}
}

func (k *modelRun) checkStep(status machine.StepStatus, tokens int64, run machine.Status, reason string) {
	k.t.Helper()
	s := k.state
	if s.Tokens != tokens || s.Status != run || s.Reason != reason || len(s.Steps) > 0 && s.Steps[0].Status != status {
		k.t.Fatalf("step %d, %d tokens, run %s (%s); want step %d, %d tokens, run %s (%s)",
			s.Steps[0].Status, s.Tokens, s.Status, s.Reason, status, tokens, run, reason)
	}
	k.replay()
}

func (k *modelRun) checkRefused(c machine.Command, reason, field string) {
	k.t.Helper()
	seq := k.state.Seq
	_, err := k.try(c)
	if r, ok := errors.AsType[*machine.Error](err); !ok || r.Reason != reason || r.Field != field || k.state.Seq != seq {
		k.t.Fatalf("%T: %v, want %s (%s)", c, err, reason, field)
	}
}

// TestOnUnknownOfModels: the execution that asked a model is lost, or it lets the time of the call
// pass. For each on_unknown policy of the pack, the test checks what follows.
func TestOnUnknownOfModels(t *testing.T) {
	t.Parallel()
	for _, policy := range []*machine.OnFault{nil, new(machine.Retry), new(machine.Return), new(machine.Escalate)} {
		on := machine.Retry
		if policy != nil {
			on = *policy
		}
		t.Run(fmt.Sprint("lost, ", on), func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, policy, "")
			k.requestModel(1, delivery(1))
			got := k.requestModel(1, delivery(2)).Steps[0]
			switch on {
			case machine.Retry:
				k.checkStep(machine.StepStatusPending, 0, machine.Running, "")
				if got.Replayed || k.state.Steps[0].Attempt != 2 {
					t.Errorf("asked again: %+v", got)
				}
			case machine.Return:
				k.checkStep(machine.StepStatusError, 0, machine.Running, "")
				if !got.Replayed || got.Status != machine.StepStatusError || got.AnswerSeq == 0 {
					t.Errorf("asked again: %+v", got)
				}
				if again := k.requestModel(1, delivery(2)).Steps[0]; again.Status != machine.StepStatusError {
					t.Errorf("and again: %+v", again)
				}
				k.step(machine.FailTurn{TurnSeq: 1, Attempt: 1, Retryable: true, Error: machine.Fault{Code: "EXECUTION_LOST"}, Assigned: delivery(2)})
				if got := k.requestModel(2, delivery(1)).Steps[0]; got.Status != machine.StepStatusPending {
					t.Errorf("the next attempt of the turn: %+v", got)
				}
			case machine.Escalate:
				k.checkStep(machine.StepStatusError, 0, machine.Escalated, "model_error:m")
				if got.Denial == nil || got.Denial.Code != "RUN_TERMINAL" {
					t.Errorf("asked again: %+v", got)
				}
			}
		})
		t.Run(fmt.Sprint("late, ", on), func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, policy, "")
			k.requestModel(1, delivery(1))
			k.step(k.stepTimer())
			switch on {
			case machine.Retry:
				k.checkStep(machine.StepStatusError, 0, machine.Waiting, "")
				if turn := k.state.Turn; turn.Attempt != 2 || turn.NotBefore == 0 {
					t.Errorf("the turn is in attempt %d", turn.Attempt)
				}
				k.requestModel(2, delivery(1))
				k.step(k.stepTimer())
				k.checkStep(machine.StepStatusError, 0, machine.Escalated, "turn_failed")
			case machine.Return:
				k.checkStep(machine.StepStatusError, 0, machine.Running, "")
				if k.state.Turn.Attempt != 1 {
					t.Errorf("the turn is in attempt %d", k.state.Turn.Attempt)
				}
			case machine.Escalate:
				k.checkStep(machine.StepStatusError, 0, machine.Escalated, "model_error:m")
			}
		})
	}
}

// TestALateCallFailsNoOtherExecution: the time of a call passes after its execution is over, or
// after it has released its turn. No other execution fails.
func TestALateCallFailsNoOtherExecution(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "")
	k.requestModel(1, delivery(1))
	due := k.stepTimer()
	k.step(machine.WriteOutput{TurnSeq: 1, Attempt: 1, Assigned: delivery(2), Piece: machine.OutputPiece{ID: "o", Last: true}})
	k.step(due)
	k.checkStep(machine.StepStatusError, 0, machine.Running, "")
	if k.state.Turn.Attempt != 1 {
		t.Errorf("the turn is in attempt %d", k.state.Turn.Attempt)
	}
}

// TestLateUsage: the usage of a call counts at any time at which it is reported, and the late
// report changes nothing else.
func TestLateUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		tell func(k *modelRun) machine.AnswerModel
		want machine.Disposition
		step machine.StepStatus
		run  machine.Status
		why  string
	}{
		{"replaced", func(k *modelRun) machine.AnswerModel {
			k.requestModel(1, delivery(2))
			return answerOfExecution(1, 1, delivery(1))
		}, machine.IgnoredStale, machine.StepStatusPending, machine.Running, ""},
		{"without a delivery", func(k *modelRun) machine.AnswerModel {
			k.requestModel(1, delivery(2))
			return answerOfExecution(1, 1, nil)
		}, machine.IgnoredStale, machine.StepStatusPending, machine.Running, ""},
		{"told under the next token", func(*modelRun) machine.AnswerModel {
			return answerOfExecution(1, 1, delivery(2))
		}, machine.IgnoredStale, machine.StepStatusPending, machine.Running, ""},
		{"late", func(k *modelRun) machine.AnswerModel {
			k.step(k.stepTimer())
			return answerOfExecution(1, 1, delivery(1))
		}, machine.IgnoredStale, machine.StepStatusError, machine.Waiting, ""},
		{"answered", func(k *modelRun) machine.AnswerModel {
			k.requestModel(1, delivery(2))
			k.step(machine.AnswerModel{TurnSeq: 1, TurnAttempt: 1, Step: 1, Attempt: 2, Answer: &machine.ModelAnswer{}, Assigned: delivery(2)})
			return answerOfExecution(1, 1, delivery(1))
		}, machine.IgnoredStale, machine.StepStatusOK, machine.Running, ""},
		{"of an earlier turn", func(k *modelRun) machine.AnswerModel {
			k.step(machine.CompleteTurn{TurnSeq: 1, Attempt: 1, Event: "Go", Assigned: delivery(1)})
			return answerOfExecution(1, 1, delivery(1))
		}, machine.IgnoredStale, 0, machine.Running, ""},
		{"paused", func(k *modelRun) machine.AnswerModel {
			k.step(machine.Pause{})
			return answerOfExecution(1, 1, delivery(2))
		}, machine.IgnoredStale, machine.StepStatusPending, machine.Running, ""},
		{"of a run that has ended", func(k *modelRun) machine.AnswerModel {
			k.step(machine.Cancel{})
			return answerOfExecution(1, 1, delivery(1))
		}, machine.IgnoredTerminal, machine.StepStatusCancelled, machine.Cancelled, "cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, nil, "")
			k.requestModel(1, delivery(1))
			r := k.step(tt.tell(k))
			if r.Disposition != tt.want || r.Batch == nil {
				t.Fatalf("disposition %v, batch %v", r.Disposition, r.Batch)
			}
			note, ok := r.Batch.Records[len(r.Batch.Records)-1].Body.(*machine.ModelUpdated)
			if !ok || note.Usage.InputTokens != 5 || note.Step != 1 || note.Attempt != 1 {
				t.Errorf("recorded %+v", r.Batch.Records)
			}
			k.checkStep(tt.step, 7, tt.run, tt.why)
		})
	}
}

// TestAnErasedRunTakesNothing: an erased run takes no input, not even a report of usage.
func TestAnErasedRunTakesNothing(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "")
	k.requestModel(1, delivery(1))
	k.step(machine.Cancel{})
	erased := *k.state
	erased.Erased = &machine.Erased{}
	k.state = &erased
	if r := k.step(answerOfExecution(1, 1, delivery(1))); r.Disposition != machine.IgnoredTerminal || r.Batch != nil {
		t.Errorf("disposition %v, batch %v", r.Disposition, r.Batch)
	}
}

// TestLateUsageEndsARun: usage that is reported late counts against the budget like all other usage.
func TestLateUsageEndsARun(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "budget tokens=6")
	k.requestModel(1, delivery(1))
	k.requestModel(1, delivery(2))
	k.step(answerOfExecution(1, 1, delivery(1)))
	k.checkStep(machine.StepStatusCancelled, 7, machine.BudgetExhausted, "max_tokens")
}

// TestAnAnswerOfTheExecutionThatAsked: an answer of the execution that asked is accepted as long as
// no other execution has asked for the round. An execution that asks later receives that answer.
func TestAnAnswerOfTheExecutionThatAsked(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "")
	k.requestModel(1, delivery(1))
	if r := k.step(answerOfExecution(1, 1, delivery(1))); r.Disposition != machine.Accepted {
		t.Fatalf("disposition %v", r.Disposition)
	}
	if got := k.requestModel(1, delivery(2)).Steps[0]; got.Status != machine.StepStatusOK || !got.Replayed {
		t.Errorf("asked again: %+v", got)
	}
}

// TestWhatNobodyAskedFor: an answer to a step or attempt that was not requested is
// refused, and changes nothing.
func TestWhatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "")
	k.requestModel(1, delivery(1))
	k.requestModel(1, delivery(2))
	k.checkRefused(answerOfExecution(1, 2, delivery(1)), "STEP_NOT_HELD", "step")
	k.checkRefused(answerOfExecution(1, 2, nil), "TURN_TOKEN_STALE", "turn_token")
	k.checkRefused(answerOfExecution(1, 3, delivery(2)), "NO_SUCH_ATTEMPT", "attempt")
	k.checkRefused(answerOfExecution(1, 0, delivery(2)), "NO_SUCH_ATTEMPT", "attempt")
	other := answerOfExecution(1, 1, delivery(1))
	other.Step = 9
	k.checkRefused(other, "STEP_NOT_FOUND", "step")
	negative := answerOfExecution(1, 1, delivery(1))
	negative.Usage.InputTokens = -1
	k.checkRefused(negative, "NEGATIVE_USAGE", "usage")
	k.checkStep(machine.StepStatusPending, 0, machine.Running, "")
}

// TestAKeyThatTurnsShare: a turn asks for a round under a key that an earlier turn of the visit has
// used. The round belongs to the later turn then.
func TestAKeyThatTurnsShare(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "")
	ask := func(turn uint64) {
		k.step(machine.RequestModel{TurnSeq: turn, Attempt: 1, Round: 1, Key: "summary", Model: &machine.ModelRequest{Model: "m"}, Assigned: delivery(1)})
	}
	ask(1)
	k.step(machine.SendInput{Parts: []machine.Part{{Kind: machine.PartText, Text: "more"}}})
	k.step(machine.CompleteTurn{TurnSeq: 1, Attempt: 1, Assigned: delivery(1)})
	turn := k.state.Turn.Seq
	ask(turn)
	a := answerOfExecution(1, 2, delivery(1))
	a.TurnSeq = turn
	if r := k.step(a); r.Disposition != machine.Accepted {
		t.Errorf("disposition %v", r.Disposition)
	}
}
