package rules

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// talk is a run whose turn asks a model.
type talk struct {
	*ledger
	at int64
}

func newTalk(t *testing.T, unknown *machine.OnFault, text string) *talk {
	t.Helper()
	g, err := parseGraph("entry a\nstate a: Go->a\nretry attempts=2 initial=1s\n" + text)
	if err != nil {
		t.Fatal(err)
	}
	g.ModelCalls = &machine.Calls{Timeout: 10 * time.Second, OnUnknown: unknown}
	talk := &talk{ledger: newLedger(t, g), at: epoch}
	talk.do(machine.Start{RunID: "R", Execution: machine.Caller})
	return talk
}

func (k *talk) try(c machine.Command) (machine.Result, error) {
	return k.apply(machine.Input{At: k.at, Principal: "app", Command: c, Semantics: machine.Current})
}

func (k *talk) do(c machine.Command) machine.Result {
	k.t.Helper()
	r, err := k.try(c)
	if err != nil {
		k.t.Fatalf("%T: %v", c, err)
	}
	return r
}

// delivery is the n-th token of the turn.
func delivery(n int) *machine.Assignment { return &machine.Assignment{Delivery: n, At: epoch} }

func (k *talk) ask(attempt int, by *machine.Assignment) machine.Result {
	k.t.Helper()
	return k.do(machine.RequestModel{TurnSeq: 1, Attempt: attempt, Round: 1, Model: &machine.ModelRequest{Model: "m"}, Assigned: by})
}

// answered is what an execution tells of an attempt, with 7 tokens.
func answered(turnAttempt, attempt int, by *machine.Assignment) machine.AnswerModel {
	return machine.AnswerModel{
		TurnSeq: 1, TurnAttempt: turnAttempt, Step: 1, Attempt: attempt, Answer: &machine.ModelAnswer{},
		Usage: machine.Usage{InputTokens: 5, OutputTokens: 2}, Assigned: by,
	}
}

func (k *talk) due() machine.FireTimer {
	return machine.FireTimer{Kind: machine.TimerStep, Step: 1, Due: k.state.Steps[0].Deadline}
}

func (k *talk) want(status machine.StepStatus, tokens int64, run machine.Status, reason string) {
	k.t.Helper()
	s := k.state
	if s.Tokens != tokens || s.Status != run || s.Reason != reason || len(s.Steps) > 0 && s.Steps[0].Status != status {
		k.t.Fatalf("step %d, %d tokens, run %s (%s); want step %d, %d tokens, run %s (%s)",
			s.Steps[0].Status, s.Tokens, s.Status, s.Reason, status, tokens, run, reason)
	}
	k.replay()
}

func (k *talk) refused(c machine.Command, reason, field string) {
	k.t.Helper()
	seq := k.state.Seq
	_, err := k.try(c)
	if r, ok := errors.AsType[*machine.Error](err); !ok || r.Reason != reason || r.Field != field || k.state.Seq != seq {
		k.t.Fatalf("%T: %v, want %s (%s)", c, err, reason, field)
	}
}

// TestOnUnknownOfModels: what follows where an execution that asked a model was lost, and
// where it let the time pass, for each word of the pack.
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
			k.ask(1, delivery(1))
			got := k.ask(1, delivery(2)).Steps[0]
			switch on {
			case machine.Retry:
				k.want(machine.StepStatusPending, 0, machine.Running, "")
				if got.Replayed || k.state.Steps[0].Attempt != 2 {
					t.Errorf("asked again: %+v", got)
				}
			case machine.Return:
				k.want(machine.StepStatusError, 0, machine.Running, "")
				if !got.Replayed || got.Status != machine.StepStatusError || got.AnswerSeq == 0 {
					t.Errorf("asked again: %+v", got)
				}
				if again := k.ask(1, delivery(2)).Steps[0]; again.Status != machine.StepStatusError {
					t.Errorf("and again: %+v", again)
				}
				k.do(machine.FailTurn{TurnSeq: 1, Attempt: 1, Retryable: true, Error: machine.Fault{Code: "EXECUTION_LOST"}, Assigned: delivery(2)})
				if got := k.ask(2, delivery(1)).Steps[0]; got.Status != machine.StepStatusPending {
					t.Errorf("the next attempt of the turn: %+v", got)
				}
			case machine.Escalate:
				k.want(machine.StepStatusError, 0, machine.Escalated, "model_error:m")
				if got.Denial == nil || got.Denial.Code != "RUN_TERMINAL" {
					t.Errorf("asked again: %+v", got)
				}
			}
		})
		t.Run(fmt.Sprint("late, ", on), func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, policy, "")
			k.ask(1, delivery(1))
			k.do(k.due())
			switch on {
			case machine.Retry:
				k.want(machine.StepStatusError, 0, machine.Waiting, "")
				if turn := k.state.Turn; turn.Attempt != 2 || turn.NotBefore == 0 {
					t.Errorf("the turn is in attempt %d", turn.Attempt)
				}
				k.ask(2, delivery(1))
				k.do(k.due())
				k.want(machine.StepStatusError, 0, machine.Escalated, "turn_failed")
			case machine.Return:
				k.want(machine.StepStatusError, 0, machine.Running, "")
				if k.state.Turn.Attempt != 1 {
					t.Errorf("the turn is in attempt %d", k.state.Turn.Attempt)
				}
			case machine.Escalate:
				k.want(machine.StepStatusError, 0, machine.Escalated, "model_error:m")
			}
		})
	}
}

// TestALateCallFailsNoOtherExecution: the time of a call passes whose execution is over
// already, or has released its turn.
func TestALateCallFailsNoOtherExecution(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "")
	k.ask(1, delivery(1))
	due := k.due()
	k.do(machine.WriteOutput{TurnSeq: 1, Attempt: 1, Assigned: delivery(2), Piece: machine.OutputPiece{ID: "o", Last: true}})
	k.do(due)
	k.want(machine.StepStatusError, 0, machine.Running, "")
	if k.state.Turn.Attempt != 1 {
		t.Errorf("the turn is in attempt %d", k.state.Turn.Attempt)
	}
}

// TestLateUsage: what a call consumed counts whenever it is told, and is all that it changes.
func TestLateUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		tell func(k *talk) machine.AnswerModel
		want machine.Disposition
		step machine.StepStatus
		run  machine.Status
		why  string
	}{
		{"replaced", func(k *talk) machine.AnswerModel {
			k.ask(1, delivery(2))
			return answered(1, 1, delivery(1))
		}, machine.IgnoredStale, machine.StepStatusPending, machine.Running, ""},
		{"of nobody known", func(k *talk) machine.AnswerModel {
			k.ask(1, delivery(2))
			return answered(1, 1, nil)
		}, machine.IgnoredStale, machine.StepStatusPending, machine.Running, ""},
		{"told under the next token", func(*talk) machine.AnswerModel {
			return answered(1, 1, delivery(2))
		}, machine.IgnoredStale, machine.StepStatusPending, machine.Running, ""},
		{"late", func(k *talk) machine.AnswerModel {
			k.do(k.due())
			return answered(1, 1, delivery(1))
		}, machine.IgnoredStale, machine.StepStatusError, machine.Waiting, ""},
		{"answered", func(k *talk) machine.AnswerModel {
			k.ask(1, delivery(2))
			k.do(machine.AnswerModel{TurnSeq: 1, TurnAttempt: 1, Step: 1, Attempt: 2, Answer: &machine.ModelAnswer{}, Assigned: delivery(2)})
			return answered(1, 1, delivery(1))
		}, machine.IgnoredStale, machine.StepStatusOK, machine.Running, ""},
		{"of an earlier turn", func(k *talk) machine.AnswerModel {
			k.do(machine.CompleteTurn{TurnSeq: 1, Attempt: 1, Event: "Go", Assigned: delivery(1)})
			return answered(1, 1, delivery(1))
		}, machine.IgnoredStale, 0, machine.Running, ""},
		{"paused", func(k *talk) machine.AnswerModel {
			k.do(machine.Pause{})
			return answered(1, 1, delivery(2))
		}, machine.IgnoredStale, machine.StepStatusPending, machine.Running, ""},
		{"of a run that has ended", func(k *talk) machine.AnswerModel {
			k.do(machine.Cancel{})
			return answered(1, 1, delivery(1))
		}, machine.IgnoredTerminal, machine.StepStatusCancelled, machine.Cancelled, "cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := newTalk(t, nil, "")
			k.ask(1, delivery(1))
			r := k.do(tt.tell(k))
			if r.Disposition != tt.want || r.Batch == nil {
				t.Fatalf("disposition %v, batch %v", r.Disposition, r.Batch)
			}
			note, ok := r.Batch.Records[len(r.Batch.Records)-1].Body.(*machine.ModelUpdated)
			if !ok || note.Usage.InputTokens != 5 || note.Step != 1 || note.Attempt != 1 {
				t.Errorf("recorded %+v", r.Batch.Records)
			}
			k.want(tt.step, 7, tt.run, tt.why)
		})
	}
}

// TestAnErasedRunTakesNothing: also no word of what it consumed.
func TestAnErasedRunTakesNothing(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "")
	k.ask(1, delivery(1))
	k.do(machine.Cancel{})
	erased := *k.state
	erased.Erased = &machine.Erased{}
	k.state = &erased
	if r := k.do(answered(1, 1, delivery(1))); r.Disposition != machine.IgnoredTerminal || r.Batch != nil {
		t.Errorf("disposition %v, batch %v", r.Disposition, r.Batch)
	}
}

// TestLateUsageEndsARun: what is told late is counted against the budget as all else is.
func TestLateUsageEndsARun(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "budget tokens=6")
	k.ask(1, delivery(1))
	k.ask(1, delivery(2))
	k.do(answered(1, 1, delivery(1)))
	k.want(machine.StepStatusCancelled, 7, machine.BudgetExhausted, "max_tokens")
}

// TestAnAnswerOfTheExecutionThatAsked is taken while nobody asked for the round since,
// though another was given the turn.
func TestAnAnswerOfTheExecutionThatAsked(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "")
	k.ask(1, delivery(1))
	if r := k.do(answered(1, 1, delivery(1))); r.Disposition != machine.Accepted {
		t.Fatalf("disposition %v", r.Disposition)
	}
	if got := k.ask(1, delivery(2)).Steps[0]; got.Status != machine.StepStatusOK || !got.Replayed {
		t.Errorf("asked again: %+v", got)
	}
}

// TestWhatNobodyAskedFor is refused, and changes nothing.
func TestWhatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "")
	k.ask(1, delivery(1))
	k.ask(1, delivery(2))
	k.refused(answered(1, 2, delivery(1)), "STEP_NOT_HELD", "step")
	k.refused(answered(1, 2, nil), "TURN_TOKEN_STALE", "turn_token")
	k.refused(answered(1, 3, delivery(2)), "NO_SUCH_ATTEMPT", "attempt")
	k.refused(answered(1, 0, delivery(2)), "NO_SUCH_ATTEMPT", "attempt")
	other := answered(1, 1, delivery(1))
	other.Step = 9
	k.refused(other, "STEP_NOT_FOUND", "step")
	negative := answered(1, 1, delivery(1))
	negative.Usage.InputTokens = -1
	k.refused(negative, "NEGATIVE_USAGE", "usage")
	k.want(machine.StepStatusPending, 0, machine.Running, "")
}

// TestAKeyThatTurnsShare: a round whose key is the visit's is asked for again by another
// turn, whose it is then.
func TestAKeyThatTurnsShare(t *testing.T) {
	t.Parallel()
	k := newTalk(t, nil, "")
	ask := func(turn uint64) {
		k.do(machine.RequestModel{TurnSeq: turn, Attempt: 1, Round: 1, Key: "summary", Model: &machine.ModelRequest{Model: "m"}, Assigned: delivery(1)})
	}
	ask(1)
	k.do(machine.SendInput{Parts: []machine.Part{{Kind: machine.PartText, Text: "more"}}})
	k.do(machine.CompleteTurn{TurnSeq: 1, Attempt: 1, Assigned: delivery(1)})
	turn := k.state.Turn.Seq
	ask(turn)
	a := answered(1, 2, delivery(1))
	a.TurnSeq = turn
	if r := k.do(a); r.Disposition != machine.Accepted {
		t.Errorf("disposition %v", r.Disposition)
	}
}
