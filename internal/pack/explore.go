package pack

import (
	"encoding/binary"
	"math"
	"slices"
)

// These constants bound the search through the positions that a run can have (see config). If a pack exceeds them,
// only the control flow that remains after all guards are used up is analysed.
const (
	maxConfigs = 20_000
	// maxWork bounds the work for all entries of a pack. The unit is one hop or one counter. A new config costs 20, and one for each byte
	// of its key.
	maxWork = 8_000_000
)

// config is the position of a run in the analysis. It contains the current state, the number of visits
// of each guarded state, and the number of times that each limited edge was followed.
type config struct {
	state            int
	visits, followed []int64
}

// key returns the configuration as a map key.
func (c config) key() string {
	b := binary.AppendVarint(nil, int64(c.state))
	for _, counters := range [][]int64{c.visits, c.followed} {
		for _, n := range counters {
			b = binary.AppendVarint(b, n)
		}
	}
	return string(b)
}

// explorer searches the configurations of a flow in depth-first order.
type explorer struct {
	f *flow
	// longest maps a config (a position that a run can have) to the largest number of visits that can follow it,
	// including its own visit. The value is 0 while the config is on the current path.
	longest map[string]int64
	path    []pathStep
	// cycle is the index in the path at which a cycle begins. It is noState if there is no cycle.
	cycle int
	// full reports whether the search has reached its bounds.
	full bool
	work int
}

// pathStep is one configuration of the path, and the event that leads to the next configuration.
type pathStep struct {
	key, event string
	state      int
}

// events returns the events of a part of a path.
func events(path []pathStep) []string {
	out := make([]string, len(path))
	for i, s := range path {
		out[i] = s.event
	}
	return out
}

// explore searches all configs (positions that a run can have) after the first visit of the state entry. It returns
// the number of visits of the longest run. If there is no longest run, explorer.cycle or explorer.full is set.
func (f *flow) explore(entry, work int) (*explorer, int64) {
	x := &explorer{f: f, longest: map[string]int64{}, cycle: noState, work: work}
	c := x.visit(config{visits: make([]int64, f.guards), followed: make([]int64, f.limits)}, entry)
	return x, x.run(c)
}

// run explores a configuration and returns the largest number of visits from it on, including its own. It returns 0 when a cycle is found
// or the search is full.
func (x *explorer) run(c config) int64 {
	key := c.key()
	if n, seen := x.longest[key]; seen {
		if n == 0 {
			x.cycle = slices.IndexFunc(x.path, func(s pathStep) bool { return s.key == key })
		}
		return n
	}
	x.work -= 20 + len(key)
	if len(x.longest) >= maxConfigs || x.work < 0 {
		x.full = true
		return 0
	}
	x.longest[key] = 0
	x.path = append(x.path, pathStep{key: key, state: c.state})
	at, best := len(x.path)-1, int64(0)
	// Events that change no counter are followed first, because every cycle consists only of such
	// events.
	for _, progress := range []bool{false, true} {
		for _, e := range x.f.states[c.state].edges {
			to, direct := x.route(c, e)
			if to == noState || x.progress(e, to, direct) != progress {
				continue
			}
			x.path[at].event = e.event
			best = max(best, x.run(x.follow(c, e, to, direct)))
			if x.cycle != noState || x.full {
				return 0
			}
		}
	}
	x.path = x.path[:at]
	x.longest[key] = best + 1
	return best + 1
}

// route finds the state to which an event leads, with the same rules as the engine. If the limit of the edge is used
// up, it continues with the forced exit of the source. If the guard of a state is used up, it continues with the
// forced exit of that state. It tries no state twice. direct reports whether the result is the edge's own target.
func (x *explorer) route(c config, e flowEdge) (to int, direct bool) {
	to, refused := e.to, noState
	if e.max > 0 && c.followed[e.limit] >= e.max {
		to, refused = x.f.states[c.state].onMax, to
	}
	// If there are more hops than states, the forced exits form a cycle, so the loop ends.
	for range x.f.states {
		x.work--
		if to == noState || to == refused {
			return noState, false
		}
		s := &x.f.states[to]
		if s.max == 0 || c.visits[s.guard] < s.max {
			return to, refused == noState && to == e.to
		}
		to = s.onMax
	}
	return noState, false
}

// progress reports whether following an edge to a state changes a counter.
func (x *explorer) progress(e flowEdge, to int, direct bool) bool {
	return x.f.states[to].max > 0 || direct && e.max > 0
}

func (x *explorer) follow(c config, e flowEdge, to int, direct bool) config {
	next := x.visit(c, to)
	if direct && e.max > 0 {
		next.followed = slices.Clone(c.followed)
		next.followed[e.limit]++
		x.work -= len(c.followed)
	}
	return next
}

func (x *explorer) visit(c config, to int) config {
	c.state = to
	if s := &x.f.states[to]; s.max > 0 {
		c.visits = slices.Clone(c.visits)
		c.visits[s.guard]++
		x.work -= len(c.visits)
	}
	return c
}

// upperBound returns a number of visits that no run of a flow exceeds. The residue of the flow has no cycle. The residue is the flow after
// all guards are used up. Between two changes of a counter, a run can only follow a path through it.
func (f *flow) upperBound(residue [][]residualEdge, within []bool) int64 {
	progress, stretch := int64(0), int64(0)
	depth := make([]int64, len(residue))
	var longest func(i int) int64
	longest = func(i int) int64 {
		if depth[i] == 0 {
			best := int64(0)
			for _, e := range residue[i] {
				best = max(best, longest(e.to))
			}
			depth[i] = best + 1
		}
		return depth[i]
	}
	for i := range f.states {
		if !within[i] {
			continue
		}
		stretch = max(stretch, longest(i))
		progress = addSat(progress, f.states[i].max)
		for _, e := range f.states[i].edges {
			progress = addSat(progress, e.max)
		}
	}
	return mulSat(addSat(progress, 1), addSat(stretch, 1))
}

func addSat(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func mulSat(a, b int64) int64 {
	if a != 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}
