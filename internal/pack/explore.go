package pack

import (
	"encoding/binary"
	"math"
	"slices"
)

// These constants bound the search through configurations. If a pack exceeds them, only its residue is
// analysed.
const (
	maxConfigs = 20_000
	// maxWork bounds the work for all entries of a pack, measured in hops and counters.
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
	// longest maps a configuration to the largest number of visits after it, including the visit of the
	// configuration itself. The value is 0 while the configuration is on the path.
	longest map[string]int64
	path    []pathStep
	// cycle is the index in the path at which a cycle begins. It is none if there is no cycle.
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

// explore searches all configurations after the first visit of the state entry. It returns the number
// of visits of the longest run. If there is no longest run, explorer.cycle or explorer.full is set.
func (f *flow) explore(entry, work int) (*explorer, int64) {
	x := &explorer{f: f, longest: map[string]int64{}, cycle: none, work: work}
	c := x.visit(config{visits: make([]int64, f.guards), followed: make([]int64, f.limits)}, entry)
	return x, x.run(c)
}

// run explores a configuration and returns the largest number of visits after it. It stops when a cycle
// is found or the search is full.
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
			if to == none || x.progress(e, to, direct) != progress {
				continue
			}
			x.path[at].event = e.event
			best = max(best, x.run(x.follow(c, e, to, direct)))
			if x.cycle != none || x.full {
				return 0
			}
		}
	}
	x.path = x.path[:at]
	x.longest[key] = best + 1
	return best + 1
}

// route finds the state that an event leads to, with the same rules as the machine. If the edge is used
// up, route continues with the forced exit of the source. If the state is used up, route continues with
// the forced exit of that state. No state is tried twice. direct reports whether the result is the
// edge's own target.
func (x *explorer) route(c config, e flowEdge) (to int, direct bool) {
	to, refused := e.to, none
	if e.max > 0 && c.followed[e.limit] >= e.max {
		to, refused = x.f.states[c.state].onMax, to
	}
	// If there are more hops than states, the forced exits form a cycle, so the loop ends.
	for range x.f.states {
		x.work--
		if to == none || to == refused {
			return none, false
		}
		s := &x.f.states[to]
		if s.max == 0 || c.visits[s.guard] < s.max {
			return to, refused == none && to == e.to
		}
		to = s.onMax
	}
	return none, false
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

// upperBound returns the maximum number of visits of a flow without a residual cycle. Between two changes of a counter, a run can only
// follow a path through the residue.
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
