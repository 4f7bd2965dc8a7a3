package rules

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// vheed is a message or notice that the requests to a model have to contain.
type vheed struct {
	seq, row      uint64
	notice, later bool
	once          bool
}

func (n *naive) steer(c machine.Steer) *machine.Error {
	if r := n.refuse(false, 0, 0, 0); r != nil {
		return r
	}
	switch {
	case c.Text == "":
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "NO_TEXT", Field: "text"}
	case c.When < 1 || c.When > 3:
		return &machine.Error{Code: machine.CodeInvalidArgument, Reason: "WHEN_UNKNOWN", Field: "when", Allowed: []string{"next_model_call", "now", "next_turn"}}
	}
	if r := n.refuseMessages(int64(len(c.Text))); r != nil {
		return r
	}
	v, most := n.view(), n.start().Limits.MaxQueuedInputs
	if waiting := len(v.queue) + len(v.unheardMessages()); v.turn != nil && c.When != machine.SteerNow && waiting >= most {
		return &machine.Error{Code: machine.CodeResourceExhausted, Reason: "INPUT_QUEUE_FULL", Field: "text", Limit: int64(most), Got: int64(waiting) + 1}
	}
	n.add(&machine.Steered{Text: c.Text, When: c.When})
	if c.When == machine.SteerNow {
		n.closeTurn("")
	}
	if n.view().turn == nil {
		n.openFurtherTurn()
	}
	return nil
}

func (n *naive) halt(c machine.Stop) *machine.Error {
	if r := n.refuse(false, 0, 0, 0); r != nil {
		return r
	}
	n.closeTurn(c.Note)
	return nil
}

// closeTurn answers all pending steps, those of models first, and closes the turn.
func (n *naive) closeTurn(note string) {
	v := n.view()
	if v.turn == nil && len(v.pending()) == 0 {
		return
	}
	for _, s := range v.steps {
		if s.model.is && s.status == machine.StepStatusPending {
			n.add(&machine.StepCancelled{Step: s.n, Tool: s.tool, Why: "cancelled_by_user", Kind: machine.KindModel})
		}
	}
	for _, s := range v.steps {
		if !s.model.is && s.status == machine.StepStatusPending {
			n.add(&machine.StepResolved{
				Step: s.n, Tool: s.tool, Attempt: s.attempt, Unknown: !v.isUnsent(&s), Kind: n.kind(s.tool),
				Error: machine.Fault{Code: "CANCELLED_BY_USER", Message: "a person ended it before there was an answer"},
				Usage: n.forgoneUsage(&s),
			})
		}
	}
	over := &machine.Stopped{Note: note}
	if v = n.view(); v.turn != nil {
		over.TurnSeq, over.Attempt = v.turn.seq, v.turn.attempt
		for _, s := range v.steps {
			if s.isAnswerOf(v.turn.seq) {
				over.ConversationThrough, over.Calls = machine.StepRef{Step: s.n, Request: s.asked, Answer: s.answer}, make([]machine.StepRef, s.model.calls)
			}
		}
		for i := range over.Calls {
			for _, s := range v.steps {
				if s.call == (machine.CallRef{Step: over.ConversationThrough.Step, Index: i}) && !s.model.is && s.answer != 0 {
					over.Calls[i] = machine.StepRef{Step: s.n, Request: s.asked, Answer: s.answer}
				}
			}
		}
	}
	n.add(over)
}

// openFurtherTurn opens a turn with all messages that wait for one.
func (n *naive) openFurtherTurn() {
	v := n.view()
	n.add(&machine.TurnOpened{State: v.current, Inputs: v.dueMessages()})
}

// unheardMessages returns the messages of people that no turn has begun with.
func (v *view) unheardMessages() (seqs []uint64) {
	for _, h := range v.heeds {
		if !h.notice && h.row == 0 {
			seqs = append(seqs, h.seq)
		}
	}
	return seqs
}

func (v *view) dueMessages() []uint64 {
	due := append(append([]uint64(nil), v.queue...), v.unheardMessages()...)
	slices.Sort(due)
	return due
}

// begin starts a turn with all waiting messages. The messages that the turn before began
// with are no longer required.
func (v *view) begin() {
	v.queue = v.dueMessages()
	var left []vheed
	for _, h := range v.heeds {
		if h.row != 0 || h.once {
			continue
		}
		if !h.notice {
			h.later = false
			for i, seq := range v.queue {
				if seq == h.seq {
					h.row = v.windows[v.current][1] + uint64(i) + 1
				}
			}
		}
		left = append(left, h)
	}
	v.heeds = left
	v.takeQueue()
}

// markHeard handles the answer to the request in record asked: the messages that are older than
// this request are no longer required.
func (v *view) markHeard(asked uint64) {
	var left []vheed
	for _, h := range v.heeds {
		if h.later || h.seq > asked {
			left = append(left, h)
		}
	}
	v.heeds = left
}

func (v *view) refuseDeaf(r *machine.ModelRequest) *machine.Error {
	var missing []string
	for _, h := range v.heeds {
		has := h.later
		for _, seq := range r.IncludedSeqs {
			has = has || seq == h.seq
		}
		if !has {
			missing = append(missing, fmt.Sprint(h.seq))
		}
	}
	if missing == nil {
		return nil
	}
	return &machine.Error{Code: machine.CodeFailedPrecondition, Reason: "STEERING_MISSING", Field: "request.messages", Allowed: missing}
}

// readSteer reads a record of a steering message, a notice or a stop, and reports whether it is one.
func (v *view) readSteer(c machine.Command, r machine.Record) bool {
	switch b := r.Body.(type) {
	case *machine.Steered:
		v.bytes += int64(len(b.Text))
		v.heeds = append(v.heeds, vheed{seq: r.Seq, later: b.When == machine.NextTurn})
	case *machine.NoticeAdded:
		v.noticed = v.noticed || b.Code == "BUDGET_LOW"
		v.heeds = append(v.heeds, vheed{seq: r.Seq, notice: true, once: b.Code == "ANSWER_REJECTED" || b.Code == "VALIDATOR_TRIGGERED"})
	case *machine.Stopped:
		v.turn, v.await = nil, machine.AwaitNothing
		if b.ConversationThrough.Step != 0 {
			v.addRow(r.Seq)
		}
		if _, ok := c.(machine.Stop); ok {
			v.takeQueue()
		}
	default:
		return false
	}
	return true
}
