package pack

import "slices"

// flow is the control flow of a workflow, reduced to the data that determines how often states are
// visited. States are numbered in the order of their names.
type flow struct {
	states []flowState
	number map[string]int
	// guards is the number of states with max_visits. limits is the number of edges with max_iterations.
	guards, limits int
	// exits contains, for each state, the state that a run enters instead when the max_visits of all states are used up: the first state
	// without max_visits in the chain of forced exits, or noState.
	exits []int
}

const noState = -1

type flowState struct {
	name string
	// max is the bound of the visits of the state. 0 means that there is none. guard is the index of this bound among
	// the counters.
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
		fs := flowState{name: name, max: max(s.MaxVisits, 0), guard: f.guards, onMax: noState}
		if fs.max > 0 {
			f.guards++
		}
		if s.OnMaxVisits != nil {
			fs.onMax = f.stateIndex(*s.OnMaxVisits)
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

// refuseAny adds, for every event, an edge to the forced exit of the event's target. It is used if the pack has the
// rule against loops without progress, because the engine then refuses a target even if its guard is not used up.
func (f *flow) refuseAny() {
	for i := range f.states {
		s := &f.states[i]
		for _, e := range slices.Clone(s.edges) {
			if exit := f.states[e.to].onMax; exit != noState {
				s.edges = append(s.edges, flowEdge{event: e.event, to: exit})
			}
		}
	}
}

// stateIndex returns the number of a state. It returns noState if the state does not exist.
func (f *flow) stateIndex(name string) int {
	if i, ok := f.number[name]; ok {
		return i
	}
	return noState
}

func (f *flow) edges(onEvent map[string]string, limits map[string]int64) []flowEdge {
	var out []flowEdge
	for _, event := range keys(onEvent) {
		e := flowEdge{event: event, to: f.stateIndex(onEvent[event]), max: max(limits[event], 0), limit: f.limits}
		if e.max > 0 {
			f.limits++
		}
		if e.to != noState {
			out = append(out, e)
		}
	}
	return out
}

// resolveExits sets f.exits. It follows every chain of forced exits once.
func (f *flow) resolveExits() {
	const unknown, open = -2, -3
	f.exits = slices.Repeat([]int{unknown}, len(f.states))
	for i := range f.states {
		var chain []int
		at := i
		for at != noState && f.exits[at] == unknown {
			if f.states[at].max == 0 {
				f.exits[at] = at
				break
			}
			f.exits[at] = open
			chain = append(chain, at)
			at = f.states[at].onMax
		}
		exit := noState
		// open means that the chain has come back to one of its own states. Such a chain has no exit.
		if at != noState && f.exits[at] != open {
			exit = f.exits[at]
		}
		for _, c := range chain {
			f.exits[c] = exit
		}
	}
}

// markReachable marks the states that can be reached from the state start by events and forced exits.
func (f *flow) markReachable(start int) []bool {
	seen := make([]bool, len(f.states))
	todo := []int{start}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if i == noState || seen[i] {
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

// residualFlow returns the flow that remains when every max_visits and max_iterations is used up. For each state without
// max_visits it contains the states without max_visits to which the state's events lead. A run that never ends is in
// the residue from some point in time.
func (f *flow) residualFlow() [][]residualEdge {
	out := make([][]residualEdge, len(f.states))
	for i := range f.states {
		if f.states[i].max > 0 {
			continue
		}
		for _, e := range f.states[i].edges {
			// The edge is left out if it has a limit and its own target can be entered, because each use is counted and
			// the limit is used up at some time. If the target is refused, a use is not counted, and the edge stays.
			if to := f.exits[e.to]; to != noState && (e.max == 0 || to != e.to) {
				out[i] = append(out[i], residualEdge{e.event, to})
			}
			if to := f.exitWithout(f.states[i].onMax, e.to); e.max > 0 && to != noState {
				out[i] = append(out[i], residualEdge{e.event, to})
			}
		}
	}
	return out
}

// exitWithout returns the first state without max_visits in the chain of forced exits from start, as exits[start] does.
// It is used for an edge whose limit is used up: refused is the edge's own target, which must not be entered.
func (f *flow) exitWithout(start, refused int) int {
	for range f.states {
		switch {
		case start == noState || start == refused:
			return noState
		case f.states[start].max == 0:
			return start
		}
		start = f.states[start].onMax
	}
	return noState
}

// unboundedFlow returns the flow with all events and forced exits, as if no bound existed.
func (f *flow) unboundedFlow() [][]residualEdge {
	out := make([][]residualEdge, len(f.states))
	for i := range f.states {
		for _, e := range f.states[i].edges {
			out[i] = append(out[i], residualEdge{e.event, e.to})
		}
		if on := f.states[i].onMax; on != noState {
			out[i] = append(out[i], residualEdge{to: on})
		}
	}
	return out
}

// findCycle finds a cycle that can be reached from the states that are marked in within. It returns the first state of the cycle and the
// events of the cycle. It returns noState if there is no cycle.
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
				if to := visit(e.to); to != noState {
					return to
				}
			}
		}
		path = path[:at]
		color[i] = done
		return noState
	}
	for i := range graph {
		if !within[i] || color[i] != fresh {
			continue
		}
		if start := visit(i); start != noState {
			from := slices.IndexFunc(path, func(s pathStep) bool { return s.state == start })
			return start, events(path[from:])
		}
	}
	return noState, nil
}
