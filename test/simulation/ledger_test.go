//go:build sim

package simulation

import (
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// ledger is what executors know of calls of models, outside of the sidecars.
type ledger struct {
	world *world
	mu    sync.Mutex
	// tick orders what executors heard.
	answers map[string]*pawlv1.ModelAnswer
	// shown is what the model of a step was shown in its attempts; asked what was asked of
	// the round of a step, whether or not an answer to the request came.
	shown   map[stepID]map[int32]string
	asked   map[string][]string
	rounds  map[stepID]string
	reports []*report
	// denials are how calls were refused whose effect another step has: a later execution would
	// ask anew, and might be told something else, or make the call.
	denials map[string]*pawlv1.Denial
}

// denied is the first refusal of a call that anybody heard; nil = nobody did.
func (l *ledger) denied(call string, now *pawlv1.Denial) *pawlv1.Denial {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first := l.denials[call]; first != nil || now == nil {
		return first
	}
	l.denials[call] = now
	return now
}

// stepID names a step of a run.
type stepID struct {
	node, run string
	step      uint32
}

// report is what an executor told of a call.
type report struct {
	stepID
	attempt int32
	usage   *pawlv1.Usage
	// answered: the model answered; else the call failed.
	answered bool
	// heard: it was answered so.
	heard bool
	took  pawlv1.Disposition
}

func newLedger(w *world) *ledger {
	return &ledger{world: w, answers: map[string]*pawlv1.ModelAnswer{}, shown: map[stepID]map[int32]string{}, asked: map[string][]string{}, rounds: map[stepID]string{}, denials: map[string]*pawlv1.Denial{}}
}

// roundID names the round of a turn, whatever step the sidecar makes of it.
func roundID(n *node, run string, turn uint64, round int32) string {
	return fmt.Sprintf("%s/%s/%d/%d", n.name, run, turn, round)
}

// answered is what an executor was acknowledged as the answer of a round; nil = none.
func (l *ledger) answered(round string) *pawlv1.ModelAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[round]
}

// acknowledged: the sidecar took an answer.
func (l *ledger) acknowledged(round string, a *pawlv1.ModelAnswer) {
	l.mu.Lock()
	first := l.answers[round]
	if first == nil {
		l.answers[round] = a
	}
	l.mu.Unlock()
	if first != nil && !proto.Equal(first, a) {
		l.world.fail("a round has one answer", "%s: %v, and then %v", round, first, a)
	}
}

// asks notes what is going to be asked of a round.
func (l *ledger) asks(round, content string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.asked[round], content) {
		l.asked[round] = append(l.asked[round], content)
	}
}

// is notes which step a round is.
func (l *ledger) is(id stepID, round string) {
	l.mu.Lock()
	other, known := l.rounds[id]
	l.rounds[id] = round
	l.mu.Unlock()
	if known && other != round {
		l.world.fail("a round is one step", "step %v is the rounds %s and %s", id, other, round)
	}
}

// show notes what the model of a step was shown.
func (l *ledger) show(id stepID, attempt int32, content string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown[id] == nil {
		l.shown[id] = map[int32]string{}
	}
	l.shown[id][attempt] = content
}

// tells notes what an executor is about to tell.
func (l *ledger) tells(id stepID, attempt int32, told *pawlv1.AnswerModelRequest) *report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &report{stepID: id, attempt: attempt, usage: told.GetUsage(), answered: told.GetAnswer() != nil}
	l.reports = append(l.reports, r)
	return r
}

// hears notes what the sidecar said to a report.
func (l *ledger) hears(r *report, got *pawlv1.AnswerModelResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.heard, r.took = true, got.GetDisposition()
}
