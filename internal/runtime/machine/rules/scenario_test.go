package rules

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestScenarios runs testdata/*.txt. Each file is a sequence of commands with their output. The
// flag -rewrite (`go test -run Scenarios . -rewrite`) writes the output again. A `graph` begins a
// new pack, a `start` a new run. After every command, the invariants hold, the old state is
// unchanged and all rows agree with the state. At the end of every run its journal is replayed.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			sc := &scenario{t: t, at: epoch}
			datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
				sc.t = t
				return sc.run(d)
			})
			sc.finish()
		})
	}
}

// scenario is one file in progress.
type scenario struct {
	t  *testing.T
	l  *ledger
	at int64
	// source is the run before the last graph, for a fork into another pack.
	source *ledger
}

func (sc *scenario) finish() {
	if sc.l != nil {
		sc.l.replay()
	}
}

func (sc *scenario) run(d *datadriven.TestData) string {
	var p printer
	switch d.Cmd {
	case "graph":
		sc.finish()
		g, err := parseGraph(d.Input)
		if err != nil {
			d.Fatalf(sc.t, "%v", err)
		}
		if sc.l != nil && sc.l.state != nil {
			sc.source = sc.l
		}
		sc.l, sc.at = newLedger(sc.t, g), epoch
		return "ok\n"
	case "fork":
		return sc.fork(d)
	case "start":
		if !d.HasArg("again") {
			sc.finish()
			sc.l, sc.at = newLedger(sc.t, sc.l.g), epoch
		}
	case "show":
		p.state(sc.l)
		return p.String()
	case "value":
		a := args{t: sc.t, d: d, s: sc.l.state}
		return shorten(sc.l.value(a.firstWord(), uint64(a.number("at", int64(sc.l.state.Seq))))) + "\n"
	}
	sc.l.t = sc.t
	a := args{t: sc.t, d: d, s: sc.l.state}
	for range a.number("times", 1) {
		p.Reset()
		sc.apply(a, &p)
	}
	return p.String()
}

// apply makes the input of one command and prints the result. at= is the time since the start of
// the run, and stays until the next at=.
func (sc *scenario) apply(a args, p *printer) {
	if a.has("at") {
		sc.at = epoch + int64(a.seconds("at"))
	}
	in := machine.Input{At: sc.at, Principal: "app", ID: a.text("id"), Command: a.command(), Semantics: machine.Semantics(a.number("semantics", int64(machine.Current)))}
	in.BodyHash = bodyHash(in.Command)
	if a.has("by") {
		in.Principal = a.text("by")
	}
	r, err := sc.l.apply(in)
	if err != nil {
		p.line("%s", printRefusal(err))
		return
	}
	switch {
	case r.Batch != nil && !a.has("quiet"):
		p.batch(r.Batch)
	case r.Batch == nil && dispositions[r.Disposition] == "":
		p.line("no change")
	}
	if name := dispositions[r.Disposition]; name != "" {
		p.line("disposition %s", name)
	}
	for _, o := range r.Steps {
		p.line("%s", printOutcome(o))
	}
	if r.Refused != nil {
		p.line("%s", printRefusal(r.Refused))
	}
	p.line("%s", printState(sc.l.state))
}

// state prints all counters and lists of a run.
func (p *printer) state(l *ledger) {
	s := l.state
	p.line("%s", printState(s))
	p.line("seq=%d visit_seq=%d total_visits=%d transitions=%d %s", s.Seq, s.VisitSeq, s.TotalVisits, s.Transitions,
		joinWords(opt("tool_calls", s.ToolCalls), opt("steps", s.LastStep), opt("max_steps", s.MaxSteps), opt("reframes", s.Reframes), opt("tokens", s.Tokens), opt("cost", s.CostMicro)))
	for _, v := range s.Visits {
		p.line("visits %s %d", v.State, v.N)
	}
	for _, e := range s.Edges {
		p.line("edge %s.%s %d", e.State, e.Event, e.N)
	}
	for _, h := range s.Artifacts {
		p.line("artifact %s seq=%d writes=%d bytes=%d", h.Name, h.Seq, h.Writes, h.Bytes)
	}
	for _, c := range s.Conversations {
		p.line("conversation %s [%d,%d)", c.State, c.From, c.Next)
	}
	if s.Forked != nil {
		p.line("forked %+v", *s.Forked)
	}
	for _, st := range s.Steps {
		p.line("%s", joinWords(fmt.Sprintf("step %d key=%s %s %s attempt=%d", st.Step, st.Key, st.Tool, stepStatuses[st.Status], st.Attempt), flag("rejected", st.Model != nil && st.Model.Rejected)))
	}
	if len(s.Queue) > 0 {
		p.line("queue %v", s.Queue)
	}
	for _, h := range s.RequiredMessages {
		p.line("heed %d %s", h.Seq, joinWords(opt("row", h.Row), flag("notice", h.Notice), flag("later", h.Later), flag("once", h.Once)))
	}
	for _, t := range Timers(s) {
		p.line("timer %s", printTimer(t))
	}
	if s.WallLeft != 0 {
		p.line("wall clock stopped")
	}
	for _, c := range Indexes(s) {
		p.line("index %s %s", c.Index, c.Value)
	}
}
