package rules

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/datadriven"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// fork begins a run as a copy of the one under way, or, with "other", of the one
// of the graph before: fork seq=N [reuse] [workers] [wall=] [max_steps=], and
// lines "name = value" for changed artifacts. With "dry" the source goes on.
func (sc *scenario) fork(d *datadriven.TestData) string {
	source := sc.l
	if d.HasArg("other") {
		source = sc.source
	}
	a := args{t: sc.t, d: d}
	seq := a.number("seq", 0)
	if seq < 0 { // from the end
		seq += int64(source.state.Seq) + 1
	}
	c := source.forkAt(uint64(seq), a.has("reuse"))
	start := a.start()
	c.RunID, c.Execution, c.Limits = "F", start.Execution, start.Limits
	c.MaxWallTime, c.MaxSteps, c.Changes = start.MaxWallTime, start.MaxSteps, a.artifactWrites()
	if a.has("again") {
		c.RunID = source.state.RunID
	}
	var p printer
	run := newLedger(sc.t, sc.l.g)
	if a.has("taken") {
		run.state = source.state
	}
	sc.l.replay()
	at := sc.at
	if a.has("at") {
		at = epoch + int64(a.seconds("at"))
	}
	r, err := run.apply(machine.Input{At: at, Principal: "app", ID: a.text("id"), Command: c})
	if err != nil {
		p.line("%s", printRefusal(err))
		return p.String()
	}
	p.batch(r.Batch)
	p.line("%s", printState(run.state))
	sc.l, sc.at = run, at
	return p.String()
}

// forkAt reads what a host brings for a fork out of the plain rows.
func (l *ledger) forkAt(seq uint64, reuse bool) machine.Fork {
	from := l.stateAt(seq)
	c := machine.Fork{Namespace: 1, Seq: seq, From: from, ReuseSteps: reuse}
	for _, h := range from.Artifacts {
		c.Values = append(c.Values, machine.ArtifactWrite{Name: h.Name, Value: l.value(h.Name, from.Seq)})
	}
	for _, w := range from.Conversations {
		if talk := l.talk(w); len(talk.Messages) > 0 {
			c.Conversations = append(c.Conversations, talk)
		}
	}
	for _, n := range from.Queue {
		in := l.record(n).Body.(*machine.InputReceived)
		c.Queued = append(c.Queued, machine.QueuedInput{Parts: in.Parts, MessageID: in.MessageID})
	}
	for i, p := range Resolved(from) {
		c.Steps = append(c.Steps, l.takenStep(p, uint32(i)+1))
	}
	return c
}

func (l *ledger) takenStep(p machine.ToolStep, n uint32) machine.TakenStep {
	taken := machine.TakenStep{Step: n}
	switch b := l.record(p.RequestSeq).Body.(type) {
	case *machine.StepRequested:
		taken.Payload, taken.Request = b.Payload, b.Model
	case *machine.Origin:
		before := takenOf(b, p.Step)
		taken.Payload, taken.Request = before.Payload, before.Request
	}
	switch b := l.record(p.AnswerSeq).Body.(type) {
	case *machine.StepResolved:
		taken.Result, taken.Error, taken.Answer = b.Result, b.Error, b.Answer
	case *machine.Origin:
		before := takenOf(b, p.Step)
		taken.Result, taken.Error, taken.Answer = before.Result, before.Error, before.Answer
	}
	return taken
}

func takenOf(b *machine.Origin, step uint32) machine.TakenStep {
	return b.Steps[slices.IndexFunc(b.Steps, func(s machine.TakenStep) bool { return s.Step == step })]
}

func (l *ledger) stateAt(seq uint64) *machine.State {
	for i := range l.entries {
		if e := &l.entries[i]; e.First+uint64(len(e.Records)) > seq {
			s, err := Replay(l.g, l.entries[:i+1])
			if err != nil {
				l.t.Fatal(err)
			}
			return s
		}
	}
	l.t.Fatalf("no record %d", seq)
	return nil
}

func (l *ledger) talk(w machine.Conversation) machine.ConversationCopy {
	talk := machine.ConversationCopy{State: w.State}
	for _, row := range l.rows {
		if row.State != w.State || row.N < w.From || row.N >= w.Next {
			continue
		}
		switch b := l.record(row.Seq).Body.(type) {
		case *machine.InputReceived:
			talk.Messages = append(talk.Messages, machine.Message{Role: "user", Parts: b.Parts})
		case *machine.TurnCompleted:
			talk.Messages = append(talk.Messages, machine.Message{Role: "assistant", Parts: b.Output})
		case *machine.Origin:
			for _, t := range b.Conversations {
				if t.State == w.State {
					talk.Messages = append(talk.Messages, t.Messages...)
				}
			}
		}
	}
	return talk
}

func printOrigin(b *machine.Origin) string {
	out := joinWords(fmt.Sprintf("of %s at %d (state at %d)", b.RunID, b.Seq, b.State.Seq), printWrites(b.Artifacts))
	for _, t := range b.Conversations {
		out += fmt.Sprintf(" %s[", t.State)
		for _, m := range t.Messages {
			out += m.Role + ":" + printParts(m.Parts) + ";"
		}
		out += "]"
	}
	for _, s := range b.Steps {
		out += fmt.Sprintf(" step%d %s=%s%s", s.Step, s.Payload, s.Result, printFault("error", s.Error))
	}
	return out
}
