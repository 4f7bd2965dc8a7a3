//go:build sim

package simulation

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// wordsOf returns the text of a steering message. All texts differ. The expression `words` also matches the
// message of a sidecar about a budget of which little is left.
func wordsOf(id string) string { return "[said " + id + "]" }

var words = regexp.MustCompile(`\[said [^\]]*\]|Of this run's budget of .*? with what is left\.`)

// say sends a steering message to a run. stop stops its open turn.
func (pp *people) say(n *node, run, id string, dice *rand.Rand) {
	c := machine.Steer{Text: wordsOf(id), When: pick(dice, machine.NextModelCall, machine.NextModelCall, machine.SteerNow, machine.NextTurn)}
	pp.control(n, run, id, "say", c)
}

func (pp *people) stop(n *node, run, id string) { pp.control(n, run, id, "stop", machine.Stop{}) }

func (pp *people) control(n *node, run, id, name string, c machine.Command) {
	ref := runtime.RunRef{Call: approver, RunID: run}
	seen := callSeen{object: n.name + "/" + run, who: ref.Principal, id: id, command: c}
	pp.ask(n, fmt.Sprintf("%s %s of %s", name, id, short(run)), seen, func(ctx context.Context, p *process) (runtime.Answer, error) {
		return p.house.Apply(ctx, runtime.Request{RunRef: ref, ID: id, Command: c})
	})
}

// `heeds` are the steering messages of a run, read from its records without the machine.
type heeds struct {
	// due are the messages that no request contains yet, by record. must are the messages that the last
	// request of a step must contain.
	due  map[uint64]*heed
	must map[uint32][]uint64
	// texts are the texts of all messages.
	texts map[uint64]string
	// stopped means that a person stopped the run and that no message followed.
	stopped bool
}

// heed is a message that a model must be shown. The next turn begins with it. After the turn after that has
// begun, the message is part of the conversation, whether a model was shown it or not.
type heed struct {
	later  bool
	opened int
}

func newHeeds() heeds {
	return heeds{due: map[uint64]*heed{}, must: map[uint32][]uint64{}, texts: map[uint64]string{}}
}

// steered checks what one record says about steering messages.
func (o *oracle) steered(e *machine.Entry, r *machine.Record, h *heeds) {
	switch b := r.Body.(type) {
	case *machine.Steered:
		h.stopped = false
		h.due[r.Seq], h.texts[r.Seq] = &heed{later: b.When == machine.NextTurn}, b.Text
	case *machine.NoticeAdded:
		h.due[r.Seq], h.texts[r.Seq] = &heed{}, b.Text
	case *machine.Stopped:
		_, h.stopped = e.Input.Command.(machine.Stop)
	case *machine.InputReceived, *machine.Ended:
		h.stopped = false
	case *machine.Transition:
		h.stopped = false
		h.opens()
	case *machine.TurnOpened:
		o.asleep(e, r, h)
		h.opens()
	case *machine.TurnAssigned, *machine.TurnCompleted, *machine.TurnFailed, *machine.TurnReady:
		o.asleep(e, r, h)
	case *machine.StepRequested:
		if b.About == nil { // a stopped run still compensates and reconciles its effects
			o.asleep(e, r, h)
		}
		if b.Kind == machine.KindModel {
			o.heeded(e, b, h)
		}
	case *machine.StepResolved:
		if b.Answer != nil {
			o.heard(e, b, h)
		}
	}
}

// opens begins a turn with the messages that no request contained before.
func (h *heeds) opens() {
	for seq, d := range h.due {
		if d.opened++; d.opened > 1 {
			delete(h.due, seq)
		}
	}
}

// asleep checks that a stopped run does nothing until a message arrives or a state is left.
func (o *oracle) asleep(e *machine.Entry, r *machine.Record, h *heeds) {
	if h.stopped {
		o.world.fail("a stopped run waits", "%s: record %d of %s is a %T %+v by %T", o.node.name, r.Seq, e.RunID, r.Body, r.Body, e.Input.Command)
	}
}

// heeded checks that a request contains all messages that it must contain.
func (o *oracle) heeded(e *machine.Entry, b *machine.StepRequested, h *heeds) {
	// A fork may repeat requests of its source. The messages in these requests are not in the records of the
	// fork.
	if c, ok := e.Input.Command.(machine.RequestModel); ok && c.Model != nil {
		h.must[b.Step] = slices.Clone(c.Model.IncludedSeqs)
	}
	for seq, d := range h.due {
		if (!d.later || d.opened > 0) && !slices.Contains(h.must[b.Step], seq) {
			o.world.fail("what is said is heard", "%s: step %d of %s is asked for without record %d", o.node.name, b.Step, e.RunID, seq)
		}
	}
}

// `heard` checks that the model was shown each required message once before it answered.
func (o *oracle) heard(e *machine.Entry, b *machine.StepResolved, h *heeds) {
	for _, seq := range h.must[b.Step] {
		delete(h.due, seq)
	}
	call := o.world.endpoint.known(b.Answer.ResponseID)
	if call == nil {
		return
	}
	for _, seq := range h.must[b.Step] {
		if !slices.Contains(call.heard, h.texts[seq]) {
			o.world.fail("what is said is heard", "%s: step %d of %s is answered by %s, which was shown %q, not %q", o.node.name, b.Step, e.RunID, call.id, call.heard, h.texts[seq])
		}
	}
}

// `hears` records the messages of people that a model was shown. No message may occur twice.
func (e *endpoint) hears(call *modelCall, shown string) {
	call.heard = words.FindAllString(shown, -1)
	for i, text := range call.heard {
		if slices.Contains(call.heard[:i], text) {
			e.world.fail("what is said is heard once", "%s is shown %q", call.id, call.heard)
		}
	}
}

// `heard` compares, at the end, the transcripts with the messages that the models must have been shown.
func (w *world) heard() {
	for i, n := range w.stores {
		o := w.oracles[i]
		for _, run := range slices.Sorted(maps.Keys(o.spent)) {
			h := &o.spent[run].heeds
			if o.deleting[run] {
				continue
			}
			for _, step := range slices.Sorted(maps.Keys(h.must)) {
				if len(h.must[step]) > 0 {
					w.shows(n, stepID{n.name, run, step}, h)
				}
			}
		}
	}
}

func (w *world) shows(n *node, id stepID, h *heeds) {
	got, err := n.runs.GetModelStep(context.Background(), &pawlv1.GetModelStepRequest{RunId: id.run, Step: id.step})
	if err != nil {
		w.fail("the transcript is what was said", "%v: %v", id, err)
		return
	}
	shown := content("", "", "", got.GetMessages())
	for _, seq := range h.must[id.step] {
		if times := strings.Count(shown, h.texts[seq]); times != 1 {
			w.fail("what is said is heard once", "%v: the transcript has %d times %q:\n%s", id, times, h.texts[seq], shown)
		}
	}
}

// otherHas matches the message of a tool that names the step that had the effect before.
var otherHas = regexp.MustCompile(`(?m)^.*DUPLICATE_EFFECT.*(call-[\d-]+)"$`)

// plain returns what a model is shown, without the messages of people and without the details of refusals of
// duplicate effects. An execution receives the messages of people with the answer to its request, and this
// answer may be lost. A fork has the rounds of its source, but not the refusals of its source.
func plain(shown string) string {
	lines := strings.SplitAfter(otherHas.ReplaceAllString(shown, "refused $1"), "\n")
	return strings.Join(slices.DeleteFunc(lines, words.MatchString), "")
}

// listen adds the required messages of a request to what the model is shown.
func (c *conversation) listen(told []*pawlv1.IncludedMessage) {
	for _, h := range told {
		if slices.Contains(c.heard, h.GetSeq()) {
			continue
		}
		c.heard = append(c.heard, h.GetSeq())
		c.say(heedOf(h.GetSeq()), &pawlv1.Message{Role: "user", Parts: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: h.GetText()}}}})
	}
}

func heedOf(seq uint64) *pawlv1.ModelMessage {
	return &pawlv1.ModelMessage{Content: &pawlv1.ModelMessage_IncludedSeq{IncludedSeq: seq}}
}

// ask makes a request. If it does not let the sidecar add the required messages, a refusal names them.
func (c *conversation) ask(ctx context.Context, round int32) (*pawlv1.RequestModelResponse, error) {
	asked, bound := c.request(), &pawlv1.Usage{InputTokens: mostInput, OutputTokens: mostOutput, Model: modelName}
	for {
		got, err := c.by.requestModel(ctx, round, asked, bound)
		more := unheard(err)
		if len(more) == 0 {
			return got, err
		}
		c.world.note("turn %d of %s has to hear %v", c.turn, short(c.run), more)
		asked = proto.CloneOf(asked)
		for _, seq := range more {
			asked.Messages = append(asked.Messages, heedOf(seq))
		}
	}
}

// unheard returns the records that a refused request must contain.
func unheard(err error) (seqs []uint64) {
	for _, detail := range status.Convert(err).Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetReason() != "STEERING_MISSING" {
			continue
		}
		for text := range strings.SplitSeq(info.GetMetadata()["allowed"], ", ") {
			if seq, err := strconv.ParseUint(text, 10, 64); err == nil {
				seqs = append(seqs, seq)
			}
		}
	}
	return seqs
}
