//go:build sim

package simulation

import (
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// ledger is what executors know about model calls, independent of the sidecars.
type ledger struct {
	world *world
	mu    sync.Mutex
	// answers are the acknowledged answers of the models, by round.
	answers map[string]*pawlv1.ModelAnswer
	// shown is what the model of a step was shown in each attempt. asked is what was requested for the
	// round of a step, even if no answer to the request arrived.
	shown   map[stepID]map[int32]string
	asked   map[string][]string
	rounds  map[stepID]string
	reports []*report
	// denials are the refusals of calls whose effect another step has. They are recorded, because a
	// later execution would request the call again and could get another answer.
	denials map[string]*pawlv1.Denial
}

// denied returns the first refusal of a call that an executor received, or nil.
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

// report is what an executor reported about a call.
type report struct {
	stepID
	attempt int32
	usage   *pawlv1.Usage
	// answered means that the model answered. Otherwise the call failed.
	answered bool
	// `heard` means that the sidecar acknowledged the report.
	heard bool
	took  pawlv1.Disposition
}

func newLedger(w *world) *ledger {
	return &ledger{world: w, answers: map[string]*pawlv1.ModelAnswer{}, shown: map[stepID]map[int32]string{}, asked: map[string][]string{}, rounds: map[stepID]string{}, denials: map[string]*pawlv1.Denial{}}
}

// roundID returns the name of a round of a turn. The name does not depend on the step that the sidecar makes
// for the round.
func roundID(n *node, run string, turn uint64, round int32) string {
	return fmt.Sprintf("%s/%s/%d/%d", n.name, run, turn, round)
}

// answered returns the acknowledged answer of a round, or nil if there is none.
func (l *ledger) answered(round string) *pawlv1.ModelAnswer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers[round]
}

// acknowledged records that the sidecar has accepted an answer. A round must have only one answer.
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

// asks records what an executor is about to request for a round.
func (l *ledger) asks(round, content string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.asked[round], content) {
		l.asked[round] = append(l.asked[round], content)
	}
}

// is records which step belongs to a round.
func (l *ledger) is(id stepID, round string) {
	l.mu.Lock()
	other, known := l.rounds[id]
	l.rounds[id] = round
	l.mu.Unlock()
	if known && other != round {
		l.world.fail("a round is one step", "step %v is the rounds %s and %s", id, other, round)
	}
}

// show records what the model of a step was shown.
func (l *ledger) show(id stepID, attempt int32, content string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shown[id] == nil {
		l.shown[id] = map[int32]string{}
	}
	l.shown[id][attempt] = content
}

// tells records what an executor is about to report.
func (l *ledger) tells(id stepID, attempt int32, told *pawlv1.AnswerModelRequest) *report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &report{stepID: id, attempt: attempt, usage: told.GetUsage(), answered: told.GetAnswer() != nil}
	l.reports = append(l.reports, r)
	return r
}

// `hears` records the sidecar's answer to a report.
func (l *ledger) hears(r *report, got *pawlv1.AnswerModelResponse) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.heard, r.took = true, got.GetDisposition()
}
