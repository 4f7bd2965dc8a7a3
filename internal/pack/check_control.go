package pack

import "slices"

// These are the values of control. They declare whether the user or the agent acts after a transition
// (PromptPack RFC 0014).
const (
	controlUser  = "user"
	controlAgent = "agent"
)

// control checks the values of control. If one state has the field, it also reports states that need it and do not have it.
func (c *checker) control() {
	states := c.doc.Workflow.States
	declared := false
	for _, name := range keys(states) {
		s := states[name]
		declared = declared || s.Control != ""
		if s.Terminal && s.Control == controlAgent {
			c.f.warn("PP0014-3", pointer("workflow", "states", name, "control"), "Remove it.",
				"control has no effect in the terminal state %s: its prompt runs, and the run ends", quote(name))
		}
	}
	if !declared {
		return
	}
	c.agentCycles()
	into := enteredStates(states, keys(states))
	for _, name := range keys(states) {
		s := states[name]
		if !into[name] || s.Control != "" || s.Ends() || s.Orchestration == "composition" || s.Orchestration == "external" {
			continue
		}
		c.f.warn(ruleControl, pointer("workflow", "states", name), "Say control: user or control: agent.",
			"the state %s has no control: after a transition a conversation waits for the user, and every other run goes on", quote(name))
	}
}

// enteredStates returns the states that a run can enter directly from one of the given states when the agent chooses the
// next event.
func enteredStates(states map[string]*State, from []string) map[string]bool {
	out := map[string]bool{}
	for _, name := range from {
		s := states[name]
		if s.Terminal || s.Orchestration == "external" {
			continue
		}
		for _, to := range s.OnEvent {
			out[to] = true
		}
		if s.OnMaxVisits != nil {
			out[*s.OnMaxVisits] = true
		}
	}
	return out
}

// agentCycles reports cycles without a bound in which the agent always continues by itself. All states that can be reached from such a
// cycle have control: agent, and no state of the cycle has max_visits. A state with orchestration: external waits for an outside event
// with every control. Cycles with a common state are checked together.
func (c *checker) agentCycles() {
	states := c.doc.Workflow.States
	f := newFlow(states, &XPawl{})
	stops := f.leadingTo(func(s *State) bool { return s.Control != controlAgent || s.Ends() || s.Orchestration == "external" }, states)
	for _, component := range f.components(func(i int) bool { return !stops[i] }) {
		var members []string
		guarded := false
		for _, i := range component {
			members = append(members, f.states[i].name)
			guarded = guarded || f.states[i].max > 0
		}
		if guarded {
			continue
		}
		slices.Sort(members)
		c.f.warn("PP0014-4", pointer("workflow", "states", members[0]), "Set max_visits on one of them, or lead an event to a terminal state or to one with control: user.",
			"the states %s pass the turn on among themselves: no user and no end can be reached, and none has max_visits", names(members))
	}
}

// leadingTo marks the states for which the function `is` returns true, and the states from which events
// lead to them.
func (f *flow) leadingTo(is func(*State) bool, states map[string]*State) []bool {
	back := make([][]int, len(f.states))
	for i := range f.states {
		for _, e := range f.states[i].edges {
			back[e.to] = append(back[e.to], i)
		}
	}
	marked := make([]bool, len(f.states))
	var todo []int
	for i := range f.states {
		if is(states[f.states[i].name]) {
			todo = append(todo, i)
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if marked[i] {
			continue
		}
		marked[i] = true
		todo = append(todo, back[i]...)
	}
	return marked
}

// components returns the strongly connected sets of states that contain a cycle, among the states for which within returns true. It uses
// Tarjan's algorithm without recursion, because a workflow may have thousands of states in a row.
func (f *flow) components(within func(int) bool) [][]int {
	type frame struct{ state, edge int }
	var (
		out     [][]int
		path    []int
		order   = make([]int, len(f.states))
		low     = make([]int, len(f.states))
		onPath  = make([]bool, len(f.states))
		counter int
	)
	for start := range f.states {
		if order[start] != 0 || !within(start) {
			continue
		}
		work := []frame{{state: start}}
		for len(work) > 0 {
			at := &work[len(work)-1]
			i := at.state
			if at.edge == 0 {
				counter++
				order[i], low[i], onPath[i] = counter, counter, true
				path = append(path, i)
			}
			if at.edge < len(f.states[i].edges) {
				to := f.states[i].edges[at.edge].to
				at.edge++
				switch {
				case !within(to):
				case order[to] == 0:
					work = append(work, frame{state: to})
				case onPath[to]:
					low[i] = min(low[i], order[to])
				}
				continue
			}
			work = work[:len(work)-1]
			if len(work) > 0 {
				above := work[len(work)-1].state
				low[above] = min(low[above], low[i])
			}
			if low[i] != order[i] {
				continue
			}
			var component []int
			for {
				last := path[len(path)-1]
				path = path[:len(path)-1]
				onPath[last] = false
				component = append(component, last)
				if last == i {
					break
				}
			}
			if len(component) > 1 || f.loops(i) {
				out = append(out, component)
			}
		}
	}
	return out
}

// loops reports whether an event leads from a state to itself.
func (f *flow) loops(i int) bool {
	return slices.ContainsFunc(f.states[i].edges, func(e flowEdge) bool { return e.to == i })
}
