package rules

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// beginFork starts a run as a copy of another run: it implements Step for the command [machine.Fork]. The
// first record is the Origin, which contains all copied data. The records of the queued inputs follow it.
func beginFork(g *machine.Graph, s *machine.State, in machine.Input, c machine.Fork) (machine.Result, error) {
	if s != nil {
		return machine.Result{State: s}, RunExists(s)
	}
	if err := First(CheckStart(g, StartOf(&c)), CheckSource(g, &c)); err != nil {
		return machine.Result{}, err
	}
	in.At = max(in.At, 1)
	t, err := newTxn(g, newState(g, StartOf(&c), in.At), in)
	if err != nil {
		return machine.Result{}, err
	}
	t.old = nil
	if err := t.takeOver(&c); err != nil {
		return machine.Result{}, err
	}
	return t.result(machine.Accepted), nil
}

// ImportedRunError returns the error for every input of an imported run, because an imported run is only for
// inspection.
func ImportedRunError() error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: "IMPORTED", Field: "run_id",
		Message: "the run was imported to be looked at and is never driven: fork it to go on from there",
	}
}

// takeOver copies the data of the source run into the new run.
func (t *txn) takeOver(c *machine.Fork) error {
	s, from := t.s, c.From
	s.Forked = &machine.Forked{RunID: from.RunID, Seq: c.Seq}
	// If the values of the source can be erased, the values of the copy must be erasable too.
	s.Erasable = s.Erasable || from.Erasable
	// Tools that the source may not call are forbidden for the copy, too.
	s.Policy = from.Policy
	s.Conversation = from.Conversation
	for _, v := range from.Visits {
		s.Forked.Visits += v.N
	}
	s.Visits, s.Edges = slices.Clone(from.Visits), slices.Clone(from.Edges)
	origin := &machine.Origin{RunID: from.RunID, Seq: c.Seq, State: from, Conversations: c.Conversations}
	seq := t.record(origin)
	s.Current, s.VisitSeq = from.Current, seq
	if err := t.takeArtifacts(c, origin, seq); err != nil {
		return err
	}
	if err := t.takeMessages(c, seq); err != nil {
		return err
	}
	if c.ReuseSteps {
		origin.Steps = c.Steps
		t.takeSteps(from, seq)
	}
	t.takeTurn(c, seq)
	t.armTimeout(t.node())
	return nil
}

// takeArtifacts copies the metadata of all artifacts that the fork does not change, and writes the changed
// artifacts. The Origin contains the values of both.
func (t *txn) takeArtifacts(c *machine.Fork, origin *machine.Origin, seq uint64) error {
	for i := range c.From.Artifacts {
		head := c.From.Artifacts[i]
		if indexOfWrite(c.Changes, head.Name) >= 0 {
			continue
		}
		at := indexOfWrite(c.Values, head.Name)
		if at < 0 {
			return &machine.Error{Code: machine.CodeInternal, Reason: "FORK_INVALID", Field: Field(head.Name), Message: "a fork needs the artifact's value"}
		}
		origin.Artifacts = append(origin.Artifacts, c.Values[at])
		head.Seq = seq
		t.s.Artifacts = append(t.s.Artifacts, head)
		t.s.ArtifactBytes += head.Bytes
		t.writes = append(t.writes, machine.ArtifactVersion{Name: head.Name, Seq: seq, Mode: head.Mode, Bytes: int64(len(c.Values[at].Value))})
	}
	t.copied.artifacts = true
	if err := First(t.checkTotal(t.s.ArtifactBytes), t.checkWrites(c.Changes)); err != nil {
		return err
	}
	t.write(c.Changes, seq)
	origin.Artifacts = append(origin.Artifacts, c.Changes...)
	return nil
}

func indexOfWrite(writes []machine.ArtifactWrite, name string) int {
	return slices.IndexFunc(writes, func(w machine.ArtifactWrite) bool { return w.Name == name })
}

// takeMessages stores each copied conversation as one message row. The row refers to the Origin, which
// contains the messages.
func (t *txn) takeMessages(c *machine.Fork, seq uint64) error {
	var size int64
	for i := range c.Conversations {
		size += MessagesBytes(c.Conversations[i].Messages)
	}
	for i := range c.Queued {
		size += PartsBytes(c.Queued[i].Parts) + int64(len(c.Queued[i].Steer))
	}
	if err := t.checkMessageBytes(size); err != nil {
		return err
	}
	t.s.MessageBytes = size
	for i := range c.Conversations {
		state := c.Conversations[i].State
		if t.g.States[state] == nil {
			return &machine.Error{Code: machine.CodeInternal, Reason: "FORK_INVALID", Field: "conversations", Message: fmt.Sprintf("no state %q", state)}
		}
		t.s.Conversations = append(t.s.Conversations, machine.Conversation{State: state, Next: 1})
		t.messages = append(t.messages, machine.MessageRow{State: state, Seq: seq})
	}
	t.copied.conversations = true
	return nil
}

// takeSteps copies the answered steps of the open visit with new numbers. Pending steps are not copied: their
// calls are made again when the turn requests them again.
func (t *txn) takeSteps(from *machine.State, seq uint64) {
	s := t.s
	t.copied.steps = true
	numbers := make(map[uint32]uint32, len(from.Steps))
	for _, p := range from.Steps {
		if !IsAnswered(&p) {
			continue
		}
		s.LastStep++
		numbers[p.Step] = s.LastStep
		if p.Call != nil {
			p.Call = &machine.CallRef{Step: numbers[p.Call.Step], Index: p.Call.Index}
		}
		p.Step, p.TurnSeq, p.RequestSeq, p.AnswerSeq, p.Approval = s.LastStep, seq, seq, seq, nil
		p.Effect, p.Doubt, p.Local = [32]byte{}, false, false // the source still owns the effect of the step
		if p.Model != nil {
			p.Model = &machine.ModelStep{Calls: p.Model.Calls, Rejected: p.Model.Rejected}
		} else {
			p.Attempt = min(p.Attempt, ToolOf(t.g, p.Tool).Attempts)
		}
		s.Steps = append(s.Steps, p)
	}
	s.Forked.Steps, s.Forked.Keys = s.LastStep, from.Seq
	if from.Forked != nil {
		s.Forked.Keys += from.Forked.Keys
	}
}

// takeTurn opens the source's open turn as attempt 1 of a new turn. If the source had no open turn, the copy has none
// either. The inputs that waited for the end of the turn stay queued. With ReuseSteps the default keys of its steps
// are the same as in the source.
func (t *txn) takeTurn(c *machine.Fork, seq uint64) {
	if c.From.Turn == nil {
		t.s.Awaiting = TurnAwaitingOf(c.From)
		t.copySteering(c.Queued)
		return
	}
	t.openTurn(seq)
	if c.ReuseSteps {
		t.s.Turn.Keys = KeysOf(c.From)
		for i := range c.From.Steps {
			if p := &c.From.Steps[i]; IsAnswered(p) && p.Model == nil && p.TurnSeq == c.From.Turn.Seq {
				t.s.Turn.Calls++
			}
		}
	}
	t.copySteering(c.Queued)
	for _, q := range c.Queued {
		if q.Steer != "" {
			continue
		}
		n := t.record(&machine.InputReceived{Parts: q.Parts, MessageID: q.MessageID, Queued: true})
		t.s.Queue = append(t.s.Queue, n)
	}
}

// Resolved returns the steps of the visit that a fork copies: the answered ones. They are in the order of
// their new numbers, which begin at 1.
func Resolved(s *machine.State) []machine.ToolStep {
	var steps []machine.ToolStep
	for i := range s.Steps {
		if IsAnswered(&s.Steps[i]) {
			steps = append(steps, s.Steps[i])
		}
	}
	return steps
}
