package rules

import (
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// boundedJournal is a run that loses an event at a bound, made by one version.
func boundedJournal(t *testing.T, versions ...machine.Semantics) *ledger {
	t.Helper()
	g, err := parseGraph("entry a\nstate a: Go->b\nstate b: Back->a\nbudget max_total_visits=2")
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(t, g)
	for i, c := range []machine.Command{machine.Start{RunID: "R", Execution: machine.Caller}, machine.EmitEvent{Event: "Go"}, machine.EmitEvent{Event: "Back"}} {
		in := machine.Input{At: epoch + int64(i), Principal: "app", Command: c, Semantics: versions[min(i, len(versions)-1)]}
		if _, err := l.apply(in); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestSemanticsOfEntries: two versions make different records of equal inputs, each
// replays by its own, and a run may go from one to the next.
func TestSemanticsOfEntries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		versions []machine.Semantics
		event    string
	}{
		{"older than the number", []machine.Semantics{0}, ""},
		{"first", []machine.Semantics{machine.SemanticsFirst}, ""},
		{"ends", []machine.Semantics{machine.SemanticsEnds}, "Back"},
		{"upgraded under way", []machine.Semantics{machine.SemanticsFirst, machine.SemanticsFirst, machine.SemanticsEnds}, "Back"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := boundedJournal(t, tt.versions...)
			last := &l.entries[len(l.entries)-1]
			ended, ok := last.Records[0].Body.(*machine.Ended)
			if !ok || ended.Event != tt.event {
				t.Fatalf("the end is %+v", last.Records[0].Body)
			}
			l.replay()
			// Read by the other version's rules the entry is another one.
			last.Input.Semantics = 3 - max(last.Input.Semantics, 1)
			var bad *ReplayError
			if _, err := Replay(l.g, l.entries); !errors.As(err, &bad) || bad.Seq != last.First {
				t.Errorf("by other rules: %v", err)
			}
		})
	}
}

// TestUnknownSemantics: an entry of a newer program is named, not guessed at.
func TestUnknownSemantics(t *testing.T) {
	t.Parallel()
	l := boundedJournal(t, machine.Current)
	_, err := Step(l.g, nil, machine.Input{At: epoch, Command: machine.Start{RunID: "R", Execution: machine.Caller}, Semantics: machine.Current + 1})
	var refusal *machine.Error
	if !errors.As(err, &refusal) || refusal.Reason != "SEMANTICS_UNKNOWN" || refusal.Code != machine.CodeDataLoss {
		t.Errorf("start: %v", err)
	}
	l.entries[1].Input.Semantics = machine.Current + 1
	var bad *ReplayError
	if _, err := Replay(l.g, l.entries); !errors.As(err, &bad) || bad.Seq != 2 {
		t.Errorf("replay: %v", err)
	}
}

// TestPausesAreFrozen: a version makes the same records of a failed attempt for ever. A change here
// breaks every store that has a retry in it, so it needs a new version.
func TestPausesAreFrozen(t *testing.T) {
	t.Parallel()
	want := map[int]time.Duration{1: 1_166_167_000, 2: 2_102_884_000, 7: 48_551_700_000}
	for version := machine.SemanticsFirst; version <= machine.Current; version++ {
		rules, err := rulesOf(version)
		if err != nil {
			t.Fatal(err)
		}
		for attempt, pause := range want {
			if got := backoff(machine.RetryPolicy{}, rules.jitter("01J00000000000000000000001", 7, attempt), attempt); got != pause {
				t.Errorf("version %d, attempt %d: %d, was %d", version, attempt, got, pause)
			}
		}
	}
}

// withoutEffect has a run and a command for each kind of command: the command is answered and
// changes nothing. It is nil for a kind whose accepted commands always make a record.
var withoutEffect = map[machine.CommandKind]func(*ledger) machine.Command{
	machine.CmdStart: nil, machine.CmdFork: nil, machine.CmdEmitEvent: nil, machine.CmdSendInput: nil, machine.CmdSetArtifacts: nil,
	machine.CmdCompleteTurn: nil, machine.CmdCancel: nil, machine.CmdWriteOutput: nil,
	machine.CmdFailTurn: func(l *ledger) machine.Command {
		fail := machine.FailTurn{TurnSeq: 1, Attempt: 1, Error: machine.Fault{Code: "X"}, Retryable: true}
		l.mustStep(fail)
		return fail
	},
	machine.CmdSuspendTurn: func(l *ledger) machine.Command {
		l.mustStep(machine.RequestSteps{TurnSeq: 1, Attempt: 1, Requests: []machine.StepRequest{{Tool: "t"}}})
		suspend := machine.SuspendTurn{TurnSeq: 1, Attempt: 1}
		l.mustStep(suspend)
		return suspend
	},
	machine.CmdRequestSteps: func(l *ledger) machine.Command {
		request := machine.RequestSteps{TurnSeq: 1, Attempt: 1, First: 1, Requests: []machine.StepRequest{{Tool: "t"}}}
		l.mustStep(request)
		return request
	},
	machine.CmdResolveStep: func(l *ledger) machine.Command {
		l.mustStep(machine.RequestSteps{TurnSeq: 1, Attempt: 1, Requests: []machine.StepRequest{{Tool: "t"}}})
		ok := machine.ResolveStep{Step: 1, Tool: "t", OK: true, Result: []byte("1")}
		l.mustStep(ok)
		return ok
	},
	machine.CmdNoteDelegation: func(*ledger) machine.Command { return machine.NoteDelegation{Step: 9, Attempt: 1} },
	machine.CmdFireTimer:      func(*ledger) machine.Command { return machine.FireTimer{Kind: machine.TimerWall, Due: epoch} },
	machine.CmdLoseTurn:       func(*ledger) machine.Command { return machine.LoseTurn{TurnSeq: 9, Attempt: 1} },
	machine.CmdLoseStep:       func(*ledger) machine.Command { return machine.LoseStep{Step: 9, Attempt: 1} },
	machine.CmdPause:          func(l *ledger) machine.Command { l.mustStep(machine.Pause{}); return machine.Pause{} },
	machine.CmdResume:         func(*ledger) machine.Command { return machine.Resume{} },
}

func (l *ledger) mustStep(c machine.Command) {
	l.t.Helper()
	in := machine.Input{At: epoch, Principal: "app", Command: c, Semantics: machine.Current}
	in.BodyHash = bodyHash(c)
	if r, err := l.apply(in); err != nil || r.Batch == nil {
		l.t.Fatalf("%T: %v", c, err)
	}
}

// TestIDsWithoutEffectAreKept: a command that is answered without an effect uses up its id, and the
// commit stores the id. Without an id nothing is stored. This holds for every kind of command.
func TestIDsWithoutEffectAreKept(t *testing.T) {
	t.Parallel()
	for kind := machine.CmdStart; kind <= machine.CmdNoteDelegation; kind++ {
		prepare, known := withoutEffect[kind]
		if named := kind.String() != "unknown"; named != known {
			t.Errorf("command %d is not in the table", kind)
		}
		if prepare == nil {
			continue
		}
		g, err := parseGraph("entry a\nstate a: Go->a\ntool t")
		if err != nil {
			t.Fatal(err)
		}
		l := newLedger(t, g)
		l.mustStep(machine.Start{RunID: "R", Execution: machine.Caller})
		in := machine.Input{At: epoch, Principal: "app", Command: prepare(l), Semantics: machine.Current}
		in.BodyHash = bodyHash(in.Command)
		if r, err := l.apply(in); err != nil || r.Batch != nil {
			t.Errorf("%s without an id: %v, %v", kind, r.Batch, err)
		}
		in.ID = "id"
		r, err := l.apply(in)
		if err != nil || r.Batch == nil || !r.Batch.NoChange() || len(r.Batch.Consumed) != 1 || r.Batch.Consumed[0].ID != "id" {
			t.Errorf("%s with an id: %+v, %v", kind, r.Batch, err)
		}
		l.replay()
	}
}
