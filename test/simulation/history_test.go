//go:build sim

package simulation

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// history has every call of people as they saw it: when it began and ended, and its answer. The clock
// of the history ticks at each beginning and each end.
type history struct {
	tick  int64
	calls []*callSeen
}

// callSeen is one call about one object: a run, or a webhook.
type callSeen struct {
	// object is the node's name with the id of the run or webhook. For the start of a run it is the
	// node's name alone.
	object     string
	begin, end int64
	// command and who are the arguments for policy and the pure machine. command is nil for a read, and
	// for a change of a webhook, which verb then names.
	command machine.Command
	who     runtime.Principal
	id      string
	verb    string
	// first is the first record of the answer, 0 = none. refused is the reason of a refusal. seq is the
	// newest record that a read showed.
	first     uint64
	duplicate bool
	// ignored means that the call had no effect except that its id may be recorded. first may be the
	// record of an earlier call.
	ignored bool
	refused string
	seq     uint64
	created bool
	// `heard` means that an answer arrived. Without one, the outcome is unknown.
	heard bool
}

// begins notes a call.
func (h *history) begins(c callSeen) *callSeen {
	h.tick++
	c.begin, c.end = h.tick, math.MaxInt64
	h.calls = append(h.calls, &c)
	return &c
}

// ends records an answer that arrived. An answer with an unknown outcome counts as none.
func (h *history) ends(c *callSeen, err error) {
	refusal, ok := errors.AsType[*machine.Error](err)
	if err != nil && (!ok || refusal.Code == machine.CodeUnavailable) {
		return
	}
	h.tick++
	c.end, c.heard = h.tick, true
	if ok && c.first == 0 {
		c.refused = refusal.Reason
	}
}

// answered takes what a run's answer says.
func (c *callSeen) answered(a *runtime.Answer) {
	c.duplicate = a.Duplicate
	c.ignored = a.Disposition >= machine.IgnoredUnknownRun && a.Disposition <= machine.IgnoredDuplicate
	if len(a.Entry.Records) > 0 {
		c.first = a.Entry.First
	}
}

// linearizable checks the calls of every object against its journal and the pure machine.
func (w *world) linearizable() {
	byObject, started := map[string][]*callSeen{}, w.started()
	for _, c := range w.people.history.calls {
		object := c.object
		if _, ok := c.command.(machine.Start); ok {
			object = started[c.object+" "+c.id]
		}
		if object != "" {
			byObject[object] = append(byObject[object], c)
		}
	}
	for _, object := range slices.Sorted(maps.Keys(byObject)) {
		calls := byObject[object]
		model := webhookModel
		if calls[0].verb == "" {
			run := w.line(object)
			if run == nil {
				continue
			}
			calls = run.settled(calls)
			model = run.model()
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

// webhookModel is the model of one webhook name: the webhook exists or not.
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

// started are the runs, as objects, by their node and the id of their start.
func (w *world) started() map[string]string {
	runs := map[string]string{}
	for _, o := range w.oracles {
		for i := range o.journal {
			e := &o.journal[i]
			if _, ok := e.Input.Command.(machine.Start); ok {
				runs[o.node.name+" "+e.Input.ID] = o.node.name + "/" + e.RunID
			}
		}
	}
	return runs
}

// line is the journal of one run: the states before each entry and after the last, and the entries that
// calls of the history made. A state of the model is a number of entries.
type line struct {
	graph  *machine.Graph
	states []*machine.State
	// at finds an entry's place by its first record, ids by its id.
	at  map[uint64]int
	ids map[string]int
	// firsts are the first records of the entries.
	firsts []uint64
	// owned are the entries that calls of the history made. Only the call itself may advance the model
	// past such an entry.
	owned map[int]bool
}

// line replays a run. It returns nil if no party saw the run begin.
func (w *world) line(object string) *line {
	l := &line{states: []*machine.State{nil}, at: map[uint64]int{}, ids: map[string]int{}, owned: map[int]bool{}}
	for _, o := range w.oracles {
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
			place := len(l.states) - 1
			l.at[e.First] = place
			l.firsts = append(l.firsts, e.First)
			if e.Input.ID != "" {
				l.ids[keyOf(e.Input.Command, e.Input.ID)] = place
			}
			l.states = append(l.states, result.State)
		}
	}
	if l.graph == nil {
		return nil
	}
	return l
}

// keyOf returns the key under which an id is unique within a run.
func keyOf(c machine.Command, id string) string {
	if c == nil || id == "" {
		return ""
	}
	return fmt.Sprintf("%d %s", machine.KindOf(c), id)
}

// settled removes calls without an answer that had no effect, and adds the effect of those that had
// one. The entry of an id belongs to the earliest call with this id, unless another call is known to
// have made it.
func (l *line) settled(calls []*callSeen) (out []*callSeen) {
	for _, c := range calls {
		if place, ok := l.made(c); ok {
			l.owned[place] = true
		}
	}
	for _, c := range calls {
		done := *c
		place, ok := l.ids[keyOf(c.command, c.id)]
		switch own, mine := l.made(c); {
		case mine:
			done.first = l.firsts[own]
		case c.heard:
			done.duplicate = done.duplicate || c.ignored
		case !ok || l.owned[place]:
			continue
		default:
			l.owned[place], done.first = true, l.firsts[place]
		}
		out = append(out, &done)
	}
	return out
}

// made is the entry that a call says that it made, by its id or, without one that is
// stored, by its record.
func (l *line) made(c *callSeen) (place int, ok bool) {
	if !c.heard || c.refused != "" || c.duplicate || c.first == 0 {
		return 0, false
	}
	if place, ok = l.ids[keyOf(c.command, c.id)]; !ok && !c.ignored {
		place, ok = l.at[c.first]
	}
	return place, ok
}

// model is the run as its callers see it. Entries of timers and workers come in between.
func (l *line) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return 0 },
		Step: func(state, input, _ any) (bool, any) {
			n, c := state.(int), input.(*callSeen)
			switch place, known := l.at[c.first]; {
			case c.refused != "":
				return l.refuses(n, c)
			case c.command == nil:
				return l.reach(n, len(l.states), func(s *machine.State) bool { return s != nil && s.Seq == c.seq })
			case c.first == 0:
				return true, n
			case c.duplicate:
				return l.passed(n, place+1) && known, max(n, place+1)
			default:
				return known && n <= place && l.passed(n, place), place + 1
			}
		},
	}
}

// passed reports whether no entry of a call is between two places.
func (l *line) passed(from, to int) bool {
	for ; from < to; from++ {
		if l.owned[from] {
			return false
		}
	}
	return true
}

// reach returns the first state from n on that agrees with what a call saw. It does not look behind the
// next entry that a call made, nor behind bound.
func (l *line) reach(n, bound int, shows func(s *machine.State) bool) (bool, int) {
	for at := n; at < min(bound, len(l.states)); at++ {
		if shows(l.states[at]) {
			return true, at
		}
		if l.owned[at] {
			break
		}
	}
	return false, n
}

// judged are the refusals that are decided by the run's state and the caller's scopes alone;
// others depend on tokens and on what else goes on.
var judged = map[string]bool{
	"PAUSED": true, "UNKNOWN_EVENT": true, "RUN_TERMINAL": true, "SEQ_MISMATCH": true,
	"RUN_NOT_FOUND": true, "TURN_LEASED": true, "TURN_TOKEN_REQUIRED": true,
}

// refuses reports whether some state from n on refuses the call with this reason. After the id of the
// call is used, no state does.
func (l *line) refuses(n int, c *callSeen) (bool, int) {
	acts := map[machine.CommandKind]policy.Act{
		machine.CmdEmitEvent: policy.Emit, machine.CmdSendInput: policy.Drive,
		machine.CmdPause: policy.Drive, machine.CmdResume: policy.Drive, machine.CmdCancel: policy.Drive,
		machine.CmdSteer: policy.Drive, machine.CmdStop: policy.Drive,
	}
	act := acts[machine.KindOf(c.command)]
	if act == 0 || !judged[c.refused] {
		return true, n
	}
	bound := len(l.states)
	if place, ok := l.ids[keyOf(c.command, c.id)]; ok {
		bound = place + 1
	}
	return l.reach(n, bound, func(s *machine.State) bool {
		return l.refusal(s, act, c) == c.refused
	})
}

// refusal returns the reason with which a state refuses a call without a token. "" means that it
// accepts the call.
func (l *line) refusal(s *machine.State, act policy.Act, c *callSeen) string {
	input := machine.Input{Principal: c.who.Name(), ID: c.id, Semantics: machine.Current, Command: c.command}
	if s != nil && !s.Status.Terminal() {
		input.At = s.At
		if err := rules.CheckExpected(s, c.command); err != nil {
			return reasonOf(err)
		}
		verdict, err := policy.Decide(policy.Ask{Act: act, Principal: c.who, Orchestration: orchestration(l.graph, s), Leased: s.Execution.Leased()})
		if err != nil {
			return reasonOf(runtime.PolicyError(err))
		}
		if emit, ok := c.command.(machine.EmitEvent); ok {
			emit.Outside = verdict.Outside
			input.Command = emit
		}
	}
	_, err := rules.Step(l.graph, s, input)
	return reasonOf(err)
}

func orchestration(g *machine.Graph, s *machine.State) policy.Orchestration {
	switch node := g.States[s.Current]; {
	case node != nil && node.Orchestration == machine.External:
		return policy.External
	case node != nil && node.Orchestration == machine.Hybrid:
		return policy.Hybrid
	}
	return policy.Internal
}

func reasonOf(err error) string {
	if refusal, ok := errors.AsType[*machine.Error](err); ok {
		return refusal.Reason
	}
	return ""
}
