package rules

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// What people say to a run that goes on, and how they stop it (section 15). Whatever is
// open at that moment gets an answer, so that no call of a model is left without one.

const whyByUser = "cancelled_by_user"

// steer takes what is said. A turn that is open hears it with its next request to a model;
// now puts that turn away, and the next one begins with it.
func (t *txn) steer(c *machine.Steer) error {
	if err := First(t.checkOpen(), CheckSteer(c), t.checkMessageBytes(int64(len(c.Text))), t.checkUnheard(c)); err != nil {
		return err
	}
	t.somethingNew()
	seq := t.record(&machine.Steered{Text: c.Text, When: c.When})
	t.s.MessageBytes += int64(len(c.Text))
	t.heed(machine.Heed{Seq: seq, Later: c.When == machine.NextTurn})
	if c.When == machine.SteerNow && t.busy() {
		t.putAway("")
	}
	if t.s.Turn == nil {
		t.nextTurn()
	}
	return nil
}

// stop puts the open turn away, and the run waits; one that has nothing under way is not
// changed.
func (t *txn) stop(c *machine.Stop) error {
	if err := t.checkOpen(); err != nil {
		return err
	}
	if !t.busy() {
		return nil
	}
	t.somethingNew()
	t.putAway(c.Note)
	t.drainQueue()
	return nil
}

// busy: a turn is open, or a step is not answered.
func (t *txn) busy() bool { return t.s.Turn != nil || len(PendingSteps(t.s)) > 0 }

// checkUnheard bounds what waits to be heard as inputs that wait are.
func (t *txn) checkUnheard(c *machine.Steer) error {
	limit, got := t.s.Limits.MaxQueuedInputs, len(t.s.Queue)+t.unheard()
	if t.s.Turn == nil || c.When == machine.SteerNow || got < limit {
		return nil
	}
	return &machine.Refusal{
		Code: machine.CodeResourceExhausted, Reason: "INPUT_QUEUE_FULL", Field: "text",
		Message: fmt.Sprintf("%d inputs wait to be heard", got), Limit: int64(limit), Got: int64(got) + 1,
	}
}

// heed adds what requests to models have to contain.
func (t *txn) heed(h machine.Heed) {
	t.s.Heeds = append(slices.Clip(t.s.Heeds), h)
}

// notice records what the next request to a model has to tell the model. It is the door for
// all rules that have something to say. Once: only as long as the open turn is.
func (t *txn) notice(n machine.Noticed, once bool) {
	t.heed(machine.Heed{Seq: t.record(&n), Notice: true, Once: once})
}

// putAway ends what is under way: calls of models and steps are answered, and what the turn
// said joins the conversation.
func (t *txn) putAway(note string) {
	t.dropModels(whyByUser)
	t.answerCancelled()
	stopped := &machine.Stopped{Note: note}
	turn := t.s.Turn
	if turn != nil {
		stopped.TurnSeq, stopped.Attempt = turn.Seq, turn.Attempt
		stopped.Said, stopped.Calls = t.saidSoFar(turn.Seq)
	}
	seq := t.record(stopped)
	if stopped.Said.Step != 0 {
		t.addMessage(seq)
	}
	t.s.Turn, t.s.Awaiting = nil, machine.AwaitNothing
}

// answerCancelled answers the pending steps of the visit: nobody knows how far the tools of
// those came that were out.
func (t *txn) answerCancelled() {
	for i := range t.s.Steps {
		if t.s.Steps[i].Status != machine.StepStatusPending {
			continue
		}
		step := &t.steps()[i]
		if step.Delegation {
			t.callOff(step)
		}
		unsent := t.unsent(step)
		step.AnswerSeq = t.record(&machine.StepResolved{
			Step: step.Step, Tool: step.Tool, Attempt: step.Attempt, Error: machine.CancelledFault, Unknown: !unsent, Kind: t.told(step.Kind()),
			Usage: t.forgo(step),
		})
		step.Status, step.Deadline, step.Inquiry = machine.StepStatusError, 0, 0
		step.AnswerHash = answerHash(false, nil, machine.CancelledFault)
		if !unsent {
			t.doubt(step)
		}
		t.settleEffect(step)
		t.stand(step)
	}
}

// saidSoFar is the last answer that a model gave in the turn, and what each of its calls
// came to.
func (t *txn) saidSoFar(turn uint64) (said machine.Said, calls []machine.Said) {
	for i := len(t.s.Steps) - 1; i >= 0; i-- {
		p := &t.s.Steps[i]
		if !IsSaid(p, turn) {
			continue
		}
		said = machine.Said{Step: p.Step, Request: p.RequestSeq, Answer: p.AnswerSeq}
		if p.Model.Calls > 0 {
			calls = make([]machine.Said, p.Model.Calls)
		}
		break
	}
	for i := range t.s.Steps {
		if p := &t.s.Steps[i]; p.Call != nil && p.Call.Step == said.Step && said.Step != 0 && IsAnswered(p) {
			calls[p.Call.Index] = machine.Said{Step: p.Step, Request: p.RequestSeq, Answer: p.AnswerSeq}
		}
	}
	return said, calls
}

// unheard counts what people said that no turn began with, and no answered request had.
func (t *txn) unheard() (n int) {
	for _, h := range t.s.Heeds {
		if !h.Notice && h.Row == 0 {
			n++
		}
	}
	return n
}

// hear makes what was not heard inputs of the turn that is about to be opened. What the
// turn before began with is in the conversation, heard or not.
func (t *txn) hear() {
	if len(t.s.Heeds) == 0 {
		return
	}
	var left []machine.Heed
	queue := slices.Clip(t.s.Queue)
	for _, h := range t.s.Heeds {
		if h.Row != 0 || h.Once {
			continue
		}
		if !h.Notice {
			queue, h.Later = append(queue, h.Seq), false
		}
		left = append(left, h)
	}
	slices.Sort(queue)
	t.s.Heeds, t.s.Queue = left, queue
}

// placed notes that what the record seq says is the newest message of the conversation.
func (t *txn) placed(seq uint64) {
	i := slices.IndexFunc(t.s.Heeds, func(h machine.Heed) bool { return h.Seq == seq })
	if i < 0 {
		return
	}
	t.s.Heeds = slices.Clone(t.s.Heeds)
	t.s.Heeds[i].Row = t.conversation(t.s.Current).Next
}

// heard: a request was answered that record seq made, and so contained all there was before.
func (t *txn) heard(seq uint64) {
	over := func(h machine.Heed) bool { return h.Seq < seq && !h.Later }
	if slices.ContainsFunc(t.s.Heeds, over) {
		t.s.Heeds = slices.DeleteFunc(slices.Clone(t.s.Heeds), over)
	}
	if len(t.s.Heeds) == 0 {
		t.s.Heeds = nil
	}
}

// checkHeeded refuses a request that leaves out what has to be in it, and names the records.
func (t *txn) checkHeeded(r *machine.ModelRequest) error {
	var missing []string
	for _, h := range t.s.Heeds {
		if !h.Later && !slices.Contains(r.Heeded, h.Seq) {
			missing = append(missing, strconv.FormatUint(h.Seq, 10))
		}
	}
	if missing == nil {
		return nil
	}
	return &machine.Refusal{
		Code: machine.CodeFailedPrecondition, Reason: "STEERING_MISSING", Field: "request.messages", Allowed: missing,
		Message: fmt.Sprintf("the run was told something that the model has to hear: add a message `included_seq` for each of the records %s", missing),
	}
}

// takeHeeds says again to a copy what was not heard.
func (t *txn) takeHeeds(queued []machine.QueuedInput) {
	for _, q := range queued {
		if q.Steer != "" {
			t.heed(machine.Heed{Seq: t.record(&machine.Steered{Text: q.Steer, When: machine.NextModelCall})})
		}
	}
}
