package output

import (
	"bytes"
	"strings"
	"testing"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

func text(name, value string) *pawlv1.ArtifactWrite {
	return &pawlv1.ArtifactWrite{Name: name, Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Text{Text: value}}}
}

func doc(name, value string) *pawlv1.ArtifactWrite {
	return &pawlv1.ArtifactWrite{Name: name, Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Json{Json: value}}}
}

func enter(event, to string, visit int32, writes ...*pawlv1.ArtifactWrite) *pawlv1.Record {
	r := &pawlv1.Record{Cause: pawlv1.Cause_CAUSE_EVENT, Body: &pawlv1.Record_Transition{Transition: &pawlv1.Transition{
		Event: event, ToState: to, Visit: visit, ArtifactsWritten: writes,
	}}}
	if event == "" {
		r.Cause = pawlv1.Cause_CAUSE_ENTRY
	}
	return r
}

// TestTraceIsTheRFCs prints the example of RFC 0009's design notes.
func TestTraceIsTheRFCs(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("abc1234", 6)[:40], strings.Repeat("def5678", 6)[:40]
	tr := NewTrace([]string{"commit_sha", "test_report"}, nil)
	for _, r := range []*pawlv1.Record{
		enter("", "plan", 1),
		enter("PlanReady", "implement", 1),
		enter("CodeReady", "test", 1, text("commit_sha", first)),
		enter("TestsFailed", "implement", 2, doc("test_report", `{"passed":2,"total":5}`)),
		enter("CodeReady", "test", 2, text("commit_sha", second)),
		enter("TestsPassed", "review", 1, doc("test_report", `{"passed":5,"total":5}`)),
		enter("Approved", "done", 1),
		{Body: &pawlv1.Record_Ended{Ended: &pawlv1.Ended{Status: pawlv1.RunStatus_RUN_STATUS_COMPLETED}}},
	} {
		tr.Add(r)
	}
	var out bytes.Buffer
	tr.Print(&Printer{Out: &out})
	want := `Transition      │ Event       │ commit_sha │ test_report
────────────────┼─────────────┼────────────┼────────────
→ plan          │ (entry)     │ —          │ —
→ implement (1) │ PlanReady   │ —          │ —
→ test (1)      │ CodeReady   │ abc1234    │ —
→ implement (2) │ TestsFailed │ abc1234    │ 2/5 pass
→ test (2)      │ CodeReady   │ def5678    │ 2/5 pass
→ review        │ TestsPassed │ def5678    │ 5/5 pass
→ done          │ Approved    │ def5678    │ 5/5 pass
■ COMPLETED     │             │ def5678    │ 5/5 pass
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestTraceOfForcedExitAndAppend(t *testing.T) {
	t.Parallel()
	tr := NewTrace(nil, []*pawlv1.ArtifactHead{{Name: "log", Mode: pawlv1.ArtifactMode_ARTIFACT_MODE_APPEND}})
	forced := enter("Again", "out", 1, text("log", "b"))
	forced.GetTransition().Redirects = []*pawlv1.Redirect{{State: "in", Guard: "max_visits:in"}}
	for _, r := range []*pawlv1.Record{enter("", "in", 1, text("log", "a")), forced, {
		Body: &pawlv1.Record_Ended{Ended: &pawlv1.Ended{
			Status: pawlv1.RunStatus_RUN_STATUS_BUDGET_EXHAUSTED, Reason: "max_visits:in", Redirects: []*pawlv1.Redirect{{Guard: "max_visits:in"}, {Guard: "max_visits:out"}},
			Event: "Again", IntendedState: "in",
		}},
	}} {
		tr.Add(r)
	}
	var out bytes.Buffer
	tr.Print(&Printer{Out: &out})
	for _, says := range []string{"Again ⤳ max_visits:in", "1× … a", "2× … b", "■ BUDGET_EXHAUSTED max_visits:in │ Again → in, refused by max_visits:in, max_visits:out"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("%q is missing in\n%s", says, out.String())
		}
	}
}

// TestLost: what was lost at a bound, with the target and the guard that refused it.
func TestLost(t *testing.T) {
	t.Parallel()
	for want, end := range map[string]*pawlv1.Ended{
		"": {Reason: "completed"},
		"Again → in, refused by max_total_visits": {Reason: "max_total_visits", Event: "Again", IntendedState: "in"},
		"→ in, refused by max_visits:in":          {Reason: "max_visits:in", IntendedState: "in", Redirects: []*pawlv1.Redirect{{State: "in", Guard: "max_visits:in"}}},
		"max_visits:in":                           {Reason: "max_visits:in", Redirects: []*pawlv1.Redirect{{State: "in", Guard: "max_visits:in"}}},
	} {
		if got := Lost(end); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTraceShowsWritesBetweenTransitions: the next row has each artifact that was written before it, for each
// kind of record that writes. A transition caused by a timeout is marked.
func TestTraceShowsWritesBetweenTransitions(t *testing.T) {
	t.Parallel()
	tr := NewTrace(nil, nil)
	late := enter("Late", "out", 1)
	late.Cause = pawlv1.Cause_CAUSE_TIMEOUT
	data := &pawlv1.ArtifactWrite{Name: "set", Value: &pawlv1.ArtifactValue{Value: &pawlv1.ArtifactValue_Data{Data: []byte{1, 2, 3}}}}
	for _, r := range []*pawlv1.Record{
		enter("", "in", 1),
		{Body: &pawlv1.Record_TurnCompleted{TurnCompleted: &pawlv1.TurnCompleted{ArtifactsWritten: []*pawlv1.ArtifactWrite{text("turn", "t")}}}},
		{Body: &pawlv1.Record_StepResolved{StepResolved: &pawlv1.StepResolved{ArtifactsWritten: []*pawlv1.ArtifactWrite{doc("step", `{"a":1}`)}}}},
		{Body: &pawlv1.Record_ArtifactsSet{ArtifactsSet: &pawlv1.ArtifactsSet{ArtifactsWritten: []*pawlv1.ArtifactWrite{data}}}},
		late,
	} {
		tr.Add(r)
	}
	var out bytes.Buffer
	tr.Print(&Printer{Out: &out})
	want := "→ out      │ Late (timeout) │ t    │ {\"a\":1} │ 3 bytes"
	if !strings.Contains(out.String(), want) {
		t.Errorf("%q is missing in\n%s", want, out.String())
	}
	if cell(3.5) != "3.5" {
		t.Errorf("a value of another kind is %q", cell(3.5))
	}
}

func TestTableWithColours(t *testing.T) {
	t.Parallel()
	var uncoloured, painted bytes.Buffer
	for out, color := range map[*bytes.Buffer]bool{&uncoloured: false, &painted: true} {
		p := &Printer{Out: out, Color: color}
		p.Table(Table{Headers: []string{"A", "BB"}, Rows: [][]string{{p.Status("COMPLETED"), "é"}, {p.Bad("x"), "y"}}})
	}
	stripped := painted.String()
	for _, code := range []string{"\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m"} {
		if !strings.Contains(stripped, code) {
			t.Errorf("no %q in %q", code, painted.String())
		}
		stripped = strings.ReplaceAll(stripped, code, "")
	}
	if stripped != uncoloured.String() {
		t.Errorf("colours move columns:\n%s\n%s", stripped, uncoloured.String())
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"abc": "abc", "abcdef": "abc…", "\ta\nb\x1b": "a b", "äöüßx": "äöü…"} {
		if got := Shorten(in, 4); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

// TestTraceOfAForkAndItsChanges: the first row is the Origin. With Diff a cell has only what its row changed.
// Next prints the same line by line.
func TestTraceOfAForkAndItsChanges(t *testing.T) {
	t.Parallel()
	heads := []*pawlv1.ArtifactHead{{Name: "log", Mode: pawlv1.ArtifactMode_ARTIFACT_MODE_APPEND}}
	records := []*pawlv1.Record{
		{Body: &pawlv1.Record_Origin{Origin: &pawlv1.Origin{RunId: "R", Seq: 5, State: "work", ArtifactsWritten: []*pawlv1.ArtifactWrite{text("note", "a")}}}},
		enter("Again", "work", 3, text("note", "b"), text("log", "x")),
		enter("Done", "end", 1, text("note", "b")),
	}
	tr := NewTrace(nil, heads)
	tr.Diff = true
	var lines bytes.Buffer
	for _, r := range records {
		tr.Add(r)
		tr.Next(&Printer{Out: &lines})
	}
	var out bytes.Buffer
	tr.Print(&Printer{Out: &out})
	want := `Transition │ Event         │ note  │ log
───────────┼───────────────┼───────┼───────
⑂ work     │ (fork of R:5) │ a     │
→ work (3) │ Again         │ a → b │ 1× … x
→ end      │ Done          │       │
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	wantLines := "⑂ work  (fork of R:5)  note: a\n→ work (3)  Again  note: a → b  log: 1× … x\n→ end  Done\n"
	if lines.String() != wantLines {
		t.Errorf("got\n%s\nwant\n%s", lines.String(), wantLines)
	}
}
