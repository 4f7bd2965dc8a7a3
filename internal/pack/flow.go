package pack

import "slices"

// flow is the control flow of a workflow, reduced to the data that determines how often states are
// visited. States are numbered in the order of their names.
type flow struct {
	states []flowState
	number map[string]int
	// guards is the number of guarded states. limits is the number of limited edges.
	guards, limits int
	// exits contains, for each state, the target of its forced exit after every guard is used up. This
	// is the first unguarded state, or none.
	exits []int
}

const none = -1

type flowState struct {
	name string
	// max is the guard of the state, that is, the bound of its visits. 0 means that there is none.
	// guard is the index of the guard among the counters.
	max   int64
	guard int
	onMax int
	// edges are the edges of the events that can be used, ordered by name.
	edges []flowEdge
}

type flowEdge struct {
	event string
	to    int
	// max is the bound of the edge in max_iterations. 0 means that there is none. limit is the index of
	// the bound among the counters.
	max   int64
	limit int
}

// newFlow returns the flow of a workflow and its settings in x_pawl.
func newFlow(states map[string]*State, x *XPawl) *flow {
	names := keys(states)
	f := &flow{number: make(map[string]int, len(names))}
	for i, name := range names {
		f.number[name] = i
	}
	for _, name := range names {
		s := states[name]
		fs := flowState{name: name, max: max(s.MaxVisits, 0), guard: f.guards, onMax: none}
		if fs.max > 0 {
			f.guards++
		}
		if s.OnMaxVisits != nil {
			fs.onMax = f.at(*s.OnMaxVisits)
		}
		if !s.Terminal {
			fs.edges = f.edges(s.OnEvent, x.MaxIterations[name])
		}
		f.states = append(f.states, fs)
	}
	if x.NoProgress != nil {
		f.refuseAny()
	}
	f.resolveExits()
	return f
}

// refuseAny adds, for every event, an edge to the forced exit of its target. In a loop without
// progress, the target is refused even if its guard is not used up.
func (f *flow) refuseAny() {
	for i := range f.states {
		s := &f.states[i]
		for _, e := range slices.Clone(s.edges) {
			if exit := f.states[e.to].onMax; exit != none {
				s.edges = append(s.edges, flowEdge{event: e.event, to: exit})
			}
		}
	}
}

// at returns the number of a state. It returns none if the state does not exist.
func (f *flow) at(name string) int {
	if i, ok := f.number[name]; ok {
		return i
	}
	return none
}

func (f *flow) edges(onEvent map[string]string, limits map[string]int64) []flowEdge {
	var out []flowEdge
	for _, event := range keys(onEvent) {
		e := flowEdge{event: event, to: f.at(onEvent[event]), max: max(limits[event], 0), limit: f.limits}
		if e.max > 0 {
			f.limits++
		}
		if e.to != none {
			out = append(out, e)
		}
	}
	return out
}

// resolveExits sets exits. It follows every chain of forced exits once.
func (f *flow) resolveExits() {
	const unknown, open = -2, -3
	f.exits = slices.Repeat([]int{unknown}, len(f.states))
	for i := range f.states {
		var chain []int
		at := i
		for at != none && f.exits[at] == unknown {
			if f.states[at].max == 0 {
				f.exits[at] = at
				break
			}
			f.exits[at] = open
			chain = append(chain, at)
			at = f.states[at].onMax
		}
		exit := none
		// If a chain contains a cycle, it never leaves the states that are used up.
		if at != none && f.exits[at] != open {
			exit = f.exits[at]
		}
		for _, c := range chain {
			f.exits[c] = exit
		}
	}
}

// reachable marks the states that can be reached from the state start by events and forced exits.
func (f *flow) reachable(start int) []bool {
	seen := make([]bool, len(f.states))
	todo := []int{start}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if i == none || seen[i] {
			continue
		}
		seen[i] = true
		todo = append(todo, f.states[i].onMax)
		for _, e := range f.states[i].edges {
			todo = append(todo, e.to)
		}
	}
	return seen
}

// residualEdge is an event that can lead to the next state without a change of a counter.
type residualEdge struct {
	event string
	to    int
}

// residue returns the flow that remains after every guard and limit is used up. For each unguarded
// state it contains the unguarded states that the events of the state lead to. A run that never ends is
// in the residue from some point in time.
func (f *flow) residue() [][]residualEdge {
	out := make([][]residualEdge, len(f.states))
	for i := range f.states {
		if f.states[i].max > 0 {
			continue
		}
		for _, e := range f.states[i].edges {
			// A limited edge is counted if its own target is entered. It is not counted if the target
			// is used up and therefore refused.
			if to := f.exits[e.to]; to != none && (e.max == 0 || to != e.to) {
				out[i] = append(out[i], residualEdge{e.event, to})
			}
			if to := f.exitWithout(f.states[i].onMax, e.to); e.max > 0 && to != none {
				out[i] = append(out[i], residualEdge{e.event, to})
			}
		}
	}
	return out
}

// exitWithout returns exits[start] for an edge that is used up. The target of the edge is treated as
// refused and is not tried again.
func (f *flow) exitWithout(start, refused int) int {
	for range f.states {
		switch {
		case start == none || start == refused:
			return none
		case f.states[start].max == 0:
			return start
		}
		start = f.states[start].onMax
	}
	return none
}

// drawn returns the flow with all events and forced exits. It ignores guards.
func (f *flow) drawn() [][]residualEdge {
	out := make([][]residualEdge, len(f.states))
	for i := range f.states {
		for _, e := range f.states[i].edges {
			out[i] = append(out[i], residualEdge{e.event, e.to})
		}
		if on := f.states[i].onMax; on != none {
			out[i] = append(out[i], residualEdge{to: on})
		}
	}
	return out
}

// findCycle finds a cycle among the states that are marked in within. It returns the first state of the
// cycle and the events of the cycle. It returns none if there is no cycle.
func findCycle(graph [][]residualEdge, within []bool) (start int, evs []string) {
	const fresh, open, done = 0, 1, 2
	color := make([]int, len(graph))
	var path []pathStep
	var visit func(i int) int
	visit = func(i int) int {
		color[i] = open
		path = append(path, pathStep{state: i})
		at := len(path) - 1
		for _, e := range graph[i] {
			path[at].event = e.event
			if color[e.to] == open {
				return e.to
			}
			if color[e.to] == fresh {
				if to := visit(e.to); to != none {
					return to
				}
			}
		}
		path = path[:at]
		color[i] = done
		return none
	}
	for i := range graph {
		if !within[i] || color[i] != fresh {
			continue
		}
		if start := visit(i); start != none {
			from := slices.IndexFunc(path, func(s pathStep) bool { return s.state == start })
			return start, events(path[from:])
		}
	}
	return none, nil
}
