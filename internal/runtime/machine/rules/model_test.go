package rules

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestModel runs the same random inputs on random graphs through the machine
// and through the naive implementation: records, refusals, dispositions,
// answers to requests and everything that the state says must agree. The
// ledger's own checks run along, and each run is replayed at its end.
func TestModel(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, checkModel)
		})
	}
}

// TestModelOfControl is TestModel where there is always something to approve, to ask about and
// to undo, and where runs seldom end for another reason.
func TestModelOfControl(t *testing.T) {
	t.Parallel()
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, checkControl)
		})
	}
}

func checkControl(t *rapid.T) {
	g, start := genGraph(t), genStart(t)
	genControlled(t, g, &start)
	checkRun(t, g, start)
}

// checkModel is one random run.
func checkModel(t *rapid.T) {
	g := genGraph(t)
	checkRun(t, g, genStart(t))
}

func checkRun(t *rapid.T, g *machine.Graph, start machine.Start) {
	if err := machine.CheckGraph(g); err != nil {
		t.Fatal(err)
	}
	m := &model{t: t, l: newLedger(t, g), n: &naive{g: g}}
	at := epoch
	// The run goes on under the current program. An older one, of any version, began it.
	first := rapid.IntRange(0, 20).Draw(t, "first semantics")
	earlier := machine.Semantics(rapid.IntRange(int(machine.SemanticsFirst), int(machine.Current)-1).Draw(t, "earlier semantics"))
	m.apply(machine.Input{At: at, Principal: "p", Command: start, Semantics: earlier})
	for i := range rapid.IntRange(1, 40).Draw(t, "length") {
		at += int64(rapid.IntRange(-1, 10).Draw(t, "seconds")) * int64(time.Second)
		in := machine.Input{At: at, Principal: "p", Command: genCommand(t, g, m.l.state), Semantics: earlier}
		in.BodyHash = bodyHash(in.Command)
		if i >= first {
			in.Semantics = machine.Current
		}
		if chance(t, 3) {
			in.ID = fmt.Sprintf("id%d", i)
		}
		m.apply(in)
	}
	m.l.replay()
}

type model struct {
	t *rapid.T
	l *ledger
	n *naive
}

func (m *model) apply(in machine.Input) {
	m.t.Helper()
	want := m.n.apply(in)
	got, err := m.l.apply(in)
	m.t.Logf("%T%+v -> %v", in.Command, in.Command, err)
	m.refusal(err, want.refusal)
	if err != nil {
		return
	}
	var records []machine.Record
	if got.Batch != nil {
		records = got.Batch.Records
	}
	if len(records) != len(want.records) {
		m.t.Fatalf("machine made %s\nnaive made %s", printRecords(records), printRecords(want.records))
	}
	for i := range records {
		if a, b := withoutWording(records[i]), withoutWording(want.records[i]); !EqualRecords(a, b) {
			m.t.Fatalf("machine made %s\nnaive made %s", printRecords(records), printRecords(want.records))
		}
	}
	if got.Disposition != want.disposition || (got.Refused != nil) != want.mismatch {
		m.t.Fatalf("machine says %v, %v, naive %v, %v", got.Disposition, got.Refused, want.disposition, want.mismatch)
	}
	if a, b := printOutcomes(got.Steps), printOutcomes(want.outcomes); a != b && !want.mismatch {
		m.t.Fatalf("machine answers\n%s\nnaive\n%s", a, b)
	}
	m.state()
}

// refusal compares all but the wording.
func (m *model) refusal(err error, want *machine.Error) {
	m.t.Helper()
	if (err == nil) != (want == nil) {
		m.t.Fatalf("machine refuses with %v, naive with %+v", err, want)
	}
	if err == nil {
		return
	}
	var r *machine.Error
	if !errors.As(err, &r) {
		m.t.Fatalf("error of type %T: %v", err, err)
	}
	got := *r
	got.Message = ""
	if !slices.Equal(got.Allowed, want.Allowed) {
		m.t.Fatalf("machine allows %v, naive %v", got.Allowed, want.Allowed)
	}
	got.Allowed, want.Allowed = nil, nil
	if !reflect.DeepEqual(got, *want) {
		m.t.Fatalf("machine refuses with %+v, naive with %+v", got, *want)
	}
}

func printRecords(records []machine.Record) string {
	var p printer
	for _, r := range records {
		p.line("\n  at %s %s", printTime(r.At), printRecord(r))
	}
	return p.String()
}

func printOutcomes(outcomes []machine.StepOutcome) string {
	var p printer
	for _, o := range outcomes {
		p.line("%s %v %x", printOutcome(o), o.Held, o.Digest)
	}
	return p.String()
}

// withoutWording leaves the machine's own wording out of a record.
func withoutWording(r machine.Record) machine.Record {
	switch b := r.Body.(type) {
	case *machine.TurnFailed:
		c := *b
		c.Error.Message = ""
		r.Body = &c
	case *machine.StepRejected:
		c := *b
		c.Denial.Message = ""
		r.Body = &c
	}
	return r
}

// state compares what the machine keeps with what the journal says.
func (m *model) state() {
	m.t.Helper()
	s, v := m.l.state, m.n.view()
	got := shownBy(s)
	want := map[string]any{
		"seq": v.seq, "visitSeq": v.visitSeq, "at": v.at, "current": v.current, "status": m.n.status(v), "awaiting": m.n.awaitedInput(v), "paused": v.paused,
		"visits": v.visits, "edges": v.edges, "total": v.total, "transitions": v.total, "calls": v.calls, "lastStep": v.lastStep,
		"reframes": v.reframes, "tokens": v.tokens, "apart": v.apart, "guessed": v.estimatedTokens, "called": v.called, "cost": v.cost, "deadline": v.deadline, "left": v.left, "timeoutAt": v.timeoutAt,
		"owed": fmt.Sprint(v.unreported), "toolSteps": v.toolSteps, "texts": fmt.Sprint(v.texts),
		"effects": fmt.Sprint(v.effects), "queue": fmt.Sprint(v.queue), "heeds": fmt.Sprint(v.heeds), "bytes": v.bytes, "held": v.heldTokens(), "windows": v.windows, "artifacts": v.artifacts,
	}
	if v.ended != nil {
		want["reason"] = v.ended.Reason
	}
	if v.turn != nil {
		want["turn"] = *v.turn
	}
	for i := range v.steps {
		v.steps[i].conversation, v.steps[i].begins, v.steps[i].wasAsked, v.steps[i].outcomeUnknown = "", 0, false, false
	}
	if v.undo != nil {
		want["undo"] = *v.undo
	}
	want["steps"] = fmt.Sprintf("%+v", v.steps)
	if !reflect.DeepEqual(got, want) {
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if !reflect.DeepEqual(got[k], want[k]) {
				m.t.Fatalf("%s: machine %+v, naive %+v", k, got[k], want[k])
			}
		}
		m.t.Fatalf("machine %+v, naive %+v", got, want)
	}
	if !maps.Equal(m.l.effects, v.business) {
		m.t.Fatalf("business keys: machine %v, naive %v", m.l.effects, v.business)
	}
	if !slices.Equal(m.l.rows, v.rows) {
		m.t.Fatalf("message rows: machine %v, naive %v", m.l.rows, v.rows)
	}
}

// shownBy writes a State in the naive one's terms.
func shownBy(s *machine.State) map[string]any {
	visits, edges := map[string]int{}, map[string]int{}
	for _, c := range s.Visits {
		visits[c.State] = c.N
	}
	called := map[string]int{}
	for _, c := range s.Called {
		called[c.State] = c.N
	}
	for _, c := range s.Edges {
		edges[c.State+"."+c.Event] = c.N
	}
	artifacts, windows := map[string]vartifact{}, map[string][2]uint64{}
	for _, h := range s.Artifacts {
		artifacts[h.Name] = vartifact{bytes: h.Bytes, writes: h.Writes, seq: h.Seq}
	}
	for _, c := range s.Conversations {
		windows[c.State] = [2]uint64{c.From, c.Next}
	}
	facts := map[string]any{
		"seq": s.Seq, "visitSeq": s.VisitSeq, "at": s.At, "current": s.Current, "status": s.Status, "awaiting": s.Awaiting, "paused": s.Paused,
		"visits": visits, "edges": edges, "total": s.TotalVisits, "transitions": s.Transitions, "calls": s.ToolCalls, "lastStep": s.LastStep,
		"reframes": s.Reframes, "tokens": s.Tokens, "apart": s.Apart, "guessed": s.EstimatedTokens, "called": called, "cost": s.CostMicro, "deadline": s.Deadline, "left": s.WallLeft, "timeoutAt": s.StateTimeoutAt,
		"owed": fmt.Sprint(owedFact(s)), "toolSteps": int(ToolSteps(s)), "texts": fmt.Sprint(s.Texts),
		"effects": fmt.Sprint(s.Effects), "queue": fmt.Sprint(s.Queue), "heeds": fmt.Sprint(heedFacts(s)), "bytes": s.MessageBytes, "held": s.ArtifactBytes, "windows": windows, "artifacts": artifacts,
	}
	if s.Status.Terminal() {
		facts["reason"] = s.Reason
	}
	if t := s.Turn; t != nil {
		facts["turn"] = vturn{
			seq: t.Seq, attempt: t.Attempt, notBefore: t.NotBefore, suspended: t.Suspended,
			assigned: t.Assigned, requests: t.Requests, calls: t.Calls, failure: t.LastFailure, keys: t.Keys,
		}
	}
	if s.Undo != nil {
		facts["undo"] = *s.Undo
	}
	facts["steps"] = fmt.Sprintf("%+v", stepFacts(s))
	return facts
}

func heedFacts(s *machine.State) (heeds []vheed) {
	for _, h := range s.RequiredMessages {
		heeds = append(heeds, vheed{seq: h.Seq, row: h.Row, notice: h.Notice, later: h.Later, once: h.Once})
	}
	return heeds
}

// stepFacts leaves out what the naive one keeps as text: the answers.
func stepFacts(s *machine.State) []vstep {
	var steps []vstep
	for _, p := range s.Steps {
		var remote vremote
		if p.Remote != nil {
			remote = vremote{Remote: *p.Remote, known: true}
		}
		step := vstep{
			remote: remote, n: p.Step, key: p.Key, tool: p.Tool, payload: p.PayloadHash, status: p.Status,
			attempt: p.Attempt, deadline: p.Deadline, answer: p.AnswerSeq, turn: p.TurnSeq, asked: p.RequestSeq, bound: p.Bound,
			held: heldFacts(p.Approval), effect: p.Effect, inquiry: p.Inquiry, byCaller: p.ByCaller, local: p.Local, repeatable: p.Repeatable,
		}
		if p.About != nil {
			step.about = *p.About
		}
		if p.Approval != nil {
			step.payloadAt = p.Approval.PayloadSeq
		}
		if p.Call != nil {
			step.call = *p.Call
		}
		if p.Model != nil {
			step.model = modelFacts(p.Model)
		}
		steps = append(steps, step)
	}
	return steps
}
