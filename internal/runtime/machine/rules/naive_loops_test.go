package rules

import (
	"fmt"
	"slices"
	"sort"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// selectEnds reads from the journal how each visit ended since something came from outside, and
// how the one under way does by the event and its writes.
func (n *naive) selectEnds(event string, writes []machine.ArtifactWrite) (ends, states []string) {
	values := map[string][]string{}
	var calls []string
	current := ""
	set := func(writes []machine.ArtifactWrite) {
		for _, w := range writes {
			if n.g.Artifacts[w.Name].Mode == machine.Replace {
				values[w.Name] = nil
			}
			values[w.Name] = append(values[w.Name], fmt.Sprintf("%q", w.Value))
		}
	}
	leave := func(event string) {
		end := fmt.Sprintf("%q %q", current, event)
		if n.g.NoProgress.Artifacts {
			var names []string
			for name := range values {
				names = append(names, name)
			}
			sort.Strings(names)
			for _, name := range names {
				end += fmt.Sprintf(" %s=%v", name, values[name])
			}
		}
		if n.g.NoProgress.ToolCalls {
			sort.Strings(calls)
			end += fmt.Sprint(calls)
		}
		ends, states, calls = append(ends, end), append(states, current), nil
	}
	read := func(in machine.Input, records []machine.Record) {
		if emit, ok := in.Command.(machine.EmitEvent); ok && emit.Outside {
			ends, states = nil, nil
		}
		for _, r := range records {
			switch b := r.Body.(type) {
			case *machine.InputReceived:
				if b.Step == 0 {
					ends, states = nil, nil
				}
			case *machine.Steered, *machine.Stopped:
				ends, states = nil, nil
			case *machine.Transition:
				set(b.Artifacts)
				if b.From != "" && b.Event == "" {
					ends, states = nil, nil
				} else if b.From != "" {
					leave(b.Event)
				}
				if len(b.Redirects) > 0 && b.Redirects[0].Guard == "no_progress" {
					ends, states = nil, nil
				}
				current, calls = b.To, nil
			case *machine.Origin:
				current = b.State.Current
				set(b.Artifacts)
				for i, step := range answeredSteps(b.State)[:len(b.Steps)] {
					if !step.model.is {
						calls = append(calls, fmt.Sprintf("%s(%q)", step.tool, b.Steps[i].Payload))
					}
				}
			case *machine.ArtifactsSet:
				set(b.Artifacts)
			case *machine.CompensationStarted:
				set(b.Artifacts)
			case *machine.TurnCompleted:
				set(b.Artifacts)
			case *machine.StepRequested:
				if b.Attempt <= 1 && b.Kind != machine.KindModel && b.About == nil {
					calls = append(calls, fmt.Sprintf("%s(%q)", b.Tool, b.Payload))
				}
			case *machine.StepResolved:
				if b.Next == 0 {
					set(b.Artifacts)
				}
			}
		}
	}
	for _, e := range n.entries {
		read(e.Input, e.Records)
	}
	read(n.now, n.records)
	set(writes)
	leave(event)
	return ends, states
}

// standsStill: visits ended like this one too often since one ended as none before did.
func (n *naive) standsStill(event, target string, writes []machine.ArtifactWrite) bool {
	if n.g.NoProgress == nil {
		return false
	}
	ends, states := n.selectEnds(event, writes)
	last := 0
	for i := range ends {
		if !slices.Contains(ends[:i], ends[i]) {
			last = i
		}
	}
	alike, way := 0, false
	for i := last; i < len(ends); i++ {
		if ends[i] == ends[len(ends)-1] {
			alike++
		}
		way = way || n.g.States[states[i]].OnMaxVisits != ""
	}
	switch {
	case alike < n.g.NoProgress.Window:
		return false
	case alike > n.g.NoProgress.Window:
		return true
	}
	return !way || n.g.States[target].OnMaxVisits != ""
}
