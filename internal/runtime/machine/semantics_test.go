package machine

import (
	"errors"
	"testing"
	"time"
)

// boundedJournal is a run that loses an event at a bound, made by one version.
func boundedJournal(t *testing.T, versions ...Semantics) *ledger {
	t.Helper()
	g, err := parseGraph("entry a\nstate a: Go->b\nstate b: Back->a\nbudget max_total_visits=2")
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger(t, g)
	for i, c := range []Command{Start{RunID: "R", Execution: Caller}, EmitEvent{Event: "Go"}, EmitEvent{Event: "Back"}} {
		in := Input{At: epoch + int64(i), Principal: "app", Command: c, Semantics: versions[min(i, len(versions)-1)]}
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
		versions []Semantics
		event    string
	}{
		{"older than the number", []Semantics{0}, ""},
		{"first", []Semantics{SemanticsFirst}, ""},
		{"ends", []Semantics{SemanticsEnds}, "Back"},
		{"upgraded under way", []Semantics{SemanticsFirst, SemanticsFirst, SemanticsEnds}, "Back"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := boundedJournal(t, tt.versions...)
			last := &l.entries[len(l.entries)-1]
			ended, ok := last.Records[0].Body.(*Ended)
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
	l := boundedJournal(t, Current)
	_, err := Step(l.g, nil, Input{At: epoch, Command: Start{RunID: "R", Execution: Caller}, Semantics: Current + 1})
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Reason != "SEMANTICS_UNKNOWN" || refusal.Code != CodeDataLoss {
		t.Errorf("start: %v", err)
	}
	l.entries[1].Input.Semantics = Current + 1
	var bad *ReplayError
	if _, err := Replay(l.g, l.entries); !errors.As(err, &bad) || bad.Seq != 2 {
		t.Errorf("replay: %v", err)
	}
}

// TestPausesAreFrozen: what a version made of a failed attempt once, it makes for
// ever. A change here breaks every store with a retry in it: it takes a new version.
func TestPausesAreFrozen(t *testing.T) {
	t.Parallel()
	want := map[int]time.Duration{1: 1_166_167_000, 2: 2_102_884_000, 7: 48_551_700_000}
	for version := SemanticsFirst; version <= Current; version++ {
		rules, err := rulesOf(version)
		if err != nil {
			t.Fatal(err)
		}
		for attempt, pause := range want {
			if got := backoff(RetryPolicy{}, rules.jitter("01J00000000000000000000001", 7, attempt), attempt); got != pause {
				t.Errorf("version %d, attempt %d: %d, was %d", version, attempt, got, pause)
			}
		}
	}
}

// withoutEffect are, per kind of command, a run and a command that is answered and
// changes nothing; nil: there is none, each accepted one makes a record of its own.
var withoutEffect = map[CommandKind]func(*ledger) Command{
	CmdStart: nil, CmdFork: nil, CmdEmitEvent: nil, CmdSendInput: nil, CmdSetArtifacts: nil,
	CmdCompleteTurn: nil, CmdCancel: nil, CmdWriteOutput: nil,
	CmdFailTurn: func(l *ledger) Command {
		fail := FailTurn{TurnSeq: 1, Attempt: 1, Error: Fault{Code: "X"}, Retryable: true}
		l.must(fail)
		return fail
	},
	CmdSuspendTurn: func(l *ledger) Command {
		l.must(RequestSteps{TurnSeq: 1, Attempt: 1, Requests: []StepRequest{{Tool: "t"}}})
		suspend := SuspendTurn{TurnSeq: 1, Attempt: 1}
		l.must(suspend)
		return suspend
	},
	CmdRequestSteps: func(l *ledger) Command {
		request := RequestSteps{TurnSeq: 1, Attempt: 1, First: 1, Requests: []StepRequest{{Tool: "t"}}}
		l.must(request)
		return request
	},
	CmdResolveStep: func(l *ledger) Command {
		l.must(RequestSteps{TurnSeq: 1, Attempt: 1, Requests: []StepRequest{{Tool: "t"}}})
		ok := ResolveStep{Step: 1, Tool: "t", OK: true, Result: []byte("1")}
		l.must(ok)
		return ok
	},
	CmdNoteDelegation: func(*ledger) Command { return NoteDelegation{Step: 9, Attempt: 1} },
	CmdFireTimer:      func(*ledger) Command { return FireTimer{Kind: TimerWall, Due: epoch} },
	CmdLoseTurn:       func(*ledger) Command { return LoseTurn{TurnSeq: 9, Attempt: 1} },
	CmdLoseStep:       func(*ledger) Command { return LoseStep{Step: 9, Attempt: 1} },
	CmdPause:          func(l *ledger) Command { l.must(Pause{}); return Pause{} },
	CmdResume:         func(*ledger) Command { return Resume{} },
}

func (l *ledger) must(c Command) {
	l.t.Helper()
	in := Input{At: epoch, Principal: "app", Command: c, Semantics: Current}
	in.BodyHash = bodyHash(c)
	if r, err := l.apply(in); err != nil || r.Batch == nil {
		l.t.Fatalf("%T: %v", c, err)
	}
}

// TestIDsWithoutEffectAreKept: whatever command is answered without an effect, its id
// is used up in a commit; without an id nothing is stored.
func TestIDsWithoutEffectAreKept(t *testing.T) {
	t.Parallel()
	for kind := CmdStart; kind <= CmdNoteDelegation; kind++ {
		prepare, known := withoutEffect[kind]
		if named := commandNames[kind] != ""; named != known {
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
		l.must(Start{RunID: "R", Execution: Caller})
		in := Input{At: epoch, Principal: "app", Command: prepare(l), Semantics: Current}
		in.BodyHash = bodyHash(in.Command)
		if r, err := l.apply(in); err != nil || r.Batch != nil {
			t.Errorf("%s without an id: %v, %v", kind, r.Batch, err)
		}
		in.ID = "id"
		r, err := l.apply(in)
		if err != nil || r.Batch == nil || !r.Batch.Noted() || len(r.Batch.Consumed) != 1 || r.Batch.Consumed[0].ID != "id" {
			t.Errorf("%s with an id: %+v, %v", kind, r.Batch, err)
		}
		l.replay()
	}
}
