package rules

import (
	"math"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// VisitsOf returns how often a state was entered.
func VisitsOf(s *machine.State, state string) int {
	for i := range s.Visits {
		if s.Visits[i].State == state {
			return s.Visits[i].N
		}
	}
	return 0
}

// CalledTimes returns how often a tool that has its own bound of calls was called.
func CalledTimes(s *machine.State, tool string) int {
	for i := range s.Called {
		if s.Called[i].State == tool {
			return s.Called[i].N
		}
	}
	return 0
}

// FollowedTimes returns how often an edge was followed.
func FollowedTimes(s *machine.State, state, event string) int {
	for i := range s.Edges {
		if s.Edges[i].State == state && s.Edges[i].Event == event {
			return s.Edges[i].N
		}
	}
	return 0
}

// OrDefault returns n, or def if n is 0.
func OrDefault[N int | int64 | time.Duration](n, def N) N {
	if n == 0 {
		return def
	}
	return n
}

// AddCapped adds two numbers that are not negative. If the sum overflows, it returns the largest int64,
// so that a counter never appears small.
func AddCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// KeepsLedger reports whether the budget is checked before each step of a tool or agent is issued.
func KeepsLedger(g *machine.Graph, s *machine.State) bool {
	return g.Ledger || s.Account != nil && s.Account.Leased
}
