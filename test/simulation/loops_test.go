//go:build sim

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// noProgressWindow is that of testdata/pack.json.
const noProgressWindow = 2

// hasExit are the states of testdata/pack.json with an on_max_visits.
var hasExit = map[string]bool{"plan": true, "desk": true}

// loops is how the visits of a run ended since the last input from outside, computed from its records
// without the machine.
type loops struct {
	values map[string]string
	calls  []string
	// ends and from are how, and which, visits ended.
	ends, from []string
	current    string
}

func newLoops() loops { return loops{values: map[string]string{}} }

func (l *loops) set(writes []machine.ArtifactWrite) {
	for _, w := range writes {
		if w.Name == "log" {
			l.values[w.Name] += fmt.Sprintf("%q", w.Value)
		} else {
			l.values[w.Name] = fmt.Sprintf("%q", w.Value)
		}
	}
}

func (l *loops) anew() { l.ends, l.from = nil, nil }

// leave notes the end of the visit by an event.
func (l *loops) leave(event string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q", l.current, event)
	for _, name := range slices.Sorted(maps.Keys(l.values)) {
		fmt.Fprintf(&b, " %s=%s", name, l.values[name])
	}
	calls := slices.Clone(l.calls)
	slices.Sort(calls)
	fmt.Fprint(&b, calls)
	l.ends, l.from = append(l.ends, b.String()), append(l.from, l.current)
}

// standsStill reports whether too many visits ended in the same way without progress, although the
// target has a forced exit, or no exit will exist any more.
func (l *loops) standsStill(target string) bool {
	last := 0
	for i := range l.ends {
		if !slices.Contains(l.ends[:i], l.ends[i]) {
			last = i
		}
	}
	alike, exit := 0, false
	for i := last; i < len(l.ends); i++ {
		if l.ends[i] == l.ends[len(l.ends)-1] {
			alike++
		}
		exit = exit || hasExit[l.from[i]]
	}
	return alike > noProgressWindow || alike == noProgressWindow && (!exit || hasExit[target])
}

// repeated checks each transition against the ends of the visits before it.
func (o *oracle) repeated(e *machine.Entry, s *spent) {
	l := &s.loops
	if emit, ok := e.Input.Command.(machine.EmitEvent); ok && emit.Outside {
		l.anew()
	}
	for i := range e.Records {
		switch b := e.Records[i].Body.(type) {
		case *machine.InputReceived:
			if b.Step == 0 {
				l.anew()
			}
		case *machine.Steered, *machine.Stopped:
			l.anew()
		case *machine.Origin:
			o.tookOver(e, b, s)
		case *machine.Transition:
			l.set(b.Artifacts)
			o.moved(e, b, l)
			l.current, l.calls = b.To, nil
		case *machine.Ended:
			l.set(b.Artifacts)
			if b.Reason == "no_progress" && b.Event != "" {
				o.still(e, b.Event, b.Intended, true, l)
			}
		case *machine.ArtifactsSet:
			l.set(b.Artifacts)
		case *machine.CompensationStarted:
			l.set(b.Artifacts)
		case *machine.TurnCompleted:
			l.set(b.Artifacts)
		case *machine.StepRequested:
			if b.Attempt <= 1 && b.Kind != machine.KindModel && b.About == nil {
				l.calls = append(l.calls, fmt.Sprintf("%s(%q)", b.Tool, b.Payload))
			}
		case *machine.StepResolved:
			if b.Next == 0 {
				l.set(b.Artifacts)
			}
		}
	}
}

// tookOver begins with what a fork copied.
func (o *oracle) tookOver(e *machine.Entry, b *machine.Origin, s *spent) {
	l := &s.loops
	l.current = b.State.Current
	l.set(b.Artifacts)
	l.calls = nil
	state := o.states[e.RunID]
	for i := range b.Steps {
		if step := &state.Steps[i]; step.Model == nil {
			l.calls = append(l.calls, fmt.Sprintf("%s(%q)", step.Tool, b.Steps[i].Payload))
		}
	}
}

func (o *oracle) moved(e *machine.Entry, b *machine.Transition, l *loops) {
	if b.From == "" {
		return
	}
	refused := len(b.Redirects) > 0 && b.Redirects[0].Guard == "no_progress"
	o.still(e, b.Event, b.Intended, refused, l)
	if refused {
		l.anew()
	}
}

// still checks that an event was refused for missing progress exactly when there was none.
func (o *oracle) still(e *machine.Entry, event, target string, refused bool, l *loops) {
	l.leave(event)
	if l.standsStill(target) != refused {
		o.world.fail("a loop that repeats itself ends", "%s: record %d of %s by %q to %q, refused %v, visits ended\n%s",
			o.node.name, e.First, e.RunID, event, target, refused, strings.Join(l.ends, "\n"))
	}
	if refused {
		o.world.stuck++
	}
}
