//go:build sim

package sim

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// history is every call that people made, as they saw it: when it began and ended, by a
// clock that ticks with each of these, and what the answer was.
type history struct {
	tick  int64
	calls []*callSeen
}

// callSeen is one call about one object: a run, or a webhook.
type callSeen struct {
	object     string
	begin, end int64
	// command and principal are what the pure machine is asked with; nil: a read, or a
	// change of a webhook, which verb then names.
	command   machine.Command
	principal string
	id        string
	verb      string
	// first is the record that answered, 0 = none; refused the reason of a refusal; seq what
	// a read showed.
	first     uint64
	duplicate bool
	refused   string
	seq       uint64
	created   bool
	// heard: an answer came. Without one nobody knows what became of it.
	heard bool
}

// begins notes a call.
func (h *history) begins(c callSeen) *callSeen {
	h.tick++
	c.begin, c.end = h.tick, math.MaxInt64
	h.calls = append(h.calls, &c)
	return &c
}

// ends notes an answer that was heard. One that says nothing for sure is none.
func (h *history) ends(c *callSeen, err error) {
	refusal, ok := errors.AsType[*machine.Refusal](err)
	if err != nil && (!ok || refusal.Code == machine.CodeUnavailable) {
		return
	}
	h.tick++
	c.end, c.heard = h.tick, true
	if ok {
		c.refused = refusal.Reason
	}
}

// answered takes what a run's answer says.
func (c *callSeen) answered(a *runtime.Answer) {
	c.duplicate = a.Duplicate
	if len(a.Entry.Records) > 0 {
		c.first = a.Entry.First
	}
}

// linearizable holds every object's calls against its journal and the pure machine.
func (w *world) linearizable() {
	byObject := map[string][]*callSeen{}
	for _, c := range w.people.history.calls {
		byObject[c.object] = append(byObject[c.object], c)
	}
	for _, object := range slices.Sorted(maps.Keys(byObject)) {
		calls := byObject[object]
		model := webhookModel
		if calls[0].verb == "" {
			run := w.line(object, calls)
			if run == nil {
				continue
			}
			model, calls = run.model(), run.settled(calls)
		}
		operations := make([]porcupine.Operation, len(calls))
		for i, c := range calls {
			operations[i] = porcupine.Operation{ClientId: i, Input: c, Output: c, Call: c.begin, Return: c.end}
		}
		if !porcupine.CheckOperations(model, operations) {
			w.fail("calls are linearizable", "%s: %s", object, tell(calls))
		}
	}
}

func tell(calls []*callSeen) (out string) {
	for _, c := range calls {
		out += fmt.Sprintf("\n[%d,%d] %T %s %s -> record %d duplicate %v seq %d %s", c.begin, c.end, c.command, c.verb, c.id, c.first, c.duplicate, c.seq, c.refused)
	}
	return out
}

// webhookModel is one name: a webhook is there or not.
var webhookModel = porcupine.Model{
	Init: func() any { return false },
	Step: func(state, input, _ any) (bool, any) {
		there, c := state.(bool), input.(*callSeen)
		switch {
		case c.verb == "put" && !c.heard:
			return true, true
		case c.verb == "put" && c.refused != "":
			return true, there
		case c.verb == "put":
			return c.created == !there, true
		case c.verb == "delete" && !c.heard:
			return true, false
		case c.verb == "delete" && c.refused == "WEBHOOK_NOT_FOUND":
			return !there, there
		case c.verb == "delete" && c.refused != "":
			return true, there
		}
		return there, false
	},
}

// line is the journal of one run: the states after each entry, from none on, and which
// entries are of calls in the history.
type line struct {
	graph  *machine.Graph
	states []*machine.State
	// owned are the indexes of entries with the id of a call.
	owned []int
	// at finds an entry's place in owned by its first record, ids the entry by its id.
	at  map[uint64]int
	ids map[string]uint64
}

// line replays a run; nil: nobody saw it begin.
func (w *world) line(object string, calls []*callSeen) *line {
	for _, o := range w.oracles {
		l := &line{states: []*machine.State{nil}, at: map[uint64]int{}, ids: map[string]uint64{}}
		asked := map[string]bool{}
		for _, c := range calls {
			asked[c.id] = c.id != ""
		}
		for i := range o.journal {
			e := &o.journal[i]
			if o.node.name+"/"+e.RunID != object {
				continue
			}
			l.graph = o.graphs[e.RunID]
			result, err := rules.Repeat(l.graph, l.states[len(l.states)-1], e)
			if err != nil {
				return nil
			}
			if asked[e.Input.ID] {
				l.ids[e.Input.ID] = e.First
				l.at[e.First] = len(l.owned)
				l.owned = append(l.owned, len(l.states)-1)
			}
			l.states = append(l.states, result.State)
		}
		if l.graph != nil {
			return l
		}
	}
	return nil
}

// settled leaves out calls without an answer that had no effect, and names the effect of
// those that had one: the earliest call with the id of an entry made it, unless one is
// known to have.
func (l *line) settled(calls []*callSeen) (out []*callSeen) {
	made := map[uint64]bool{}
	for _, c := range calls {
		if c.heard && c.first != 0 && !c.duplicate {
			made[c.first] = true
		}
	}
	for _, c := range calls {
		switch {
		case c.heard:
			out = append(out, c)
		case c.command != nil:
			if first := l.ids[c.id]; first != 0 && !made[first] {
				made[first] = true
				done := *c
				done.first = first
				out = append(out, &done)
			}
		}
	}
	return out
}

// model is the run as its callers see it: how many of their entries were made. Entries of
// timers and workers come in between.
func (l *line) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			n, c := state.(int), input.(*callSeen)
			if c.refused != "" {
				return l.refuses(n, c), n
			}
			if c.command == nil {
				return l.shows(n, c.seq), n
			}
			i, known := l.at[c.first]
			switch {
			case c.first == 0:
				return true, n
			case c.duplicate:
				return known && i < n, n
			}
			return known && i == n, n + 1
		},
	}
}

// between are the states that the run had after n of its callers' entries and before the next.
func (l *line) between(n int) []*machine.State {
	from, to := 0, len(l.states)
	if n > 0 {
		from = l.owned[n-1] + 1
	}
	if n < len(l.owned) {
		to = l.owned[n] + 1
	}
	return l.states[from:to]
}

// judged are the refusals that the machine itself decides; others depend on rights and tokens.
var judged = map[string]bool{"PAUSED": true, "UNKNOWN_EVENT": true, "RUN_TERMINAL": true, "SEQ_MISMATCH": true}

func (l *line) refuses(n int, c *callSeen) bool {
	if c.command == nil || !judged[c.refused] {
		return true
	}
	for _, s := range l.between(n) {
		if s == nil {
			continue
		}
		_, err := rules.Step(l.graph, s, machine.Input{At: s.At, Principal: c.principal, ID: c.id, Semantics: machine.Current, Command: c.command})
		if refusal, ok := errors.AsType[*machine.Refusal](err); ok && refusal.Reason == c.refused {
			return true
		}
	}
	return false
}

func (l *line) shows(n int, seq uint64) bool {
	return slices.ContainsFunc(l.between(n), func(s *machine.State) bool { return s != nil && s.Seq == seq })
}
