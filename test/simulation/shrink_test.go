//go:build sim

package simulation

import "testing"

// shrinkTries bounds the simulations that a shrinking takes, shakes how many interleavings
// each shorter plan gets.
const (
	shrinkTries = 600
	shakes      = 4
)

// shrink finds a shorter plan that breaks the same promise. It removes actions in ever smaller pieces,
// and the pauses between the remaining ones.
func shrink(p plan, promise string, simulate func(plan) *violation) plan {
	s := &shrinker{promise: promise, simulate: simulate, left: shrinkTries}
	for size := len(p.actions) / 2; size > 0 && s.left > 0; {
		shorter, ok := s.without(p, size)
		if ok {
			p = shorter
			size = min(size, max(1, len(p.actions)/2))
			continue
		}
		size /= 2
	}
	return p
}

type shrinker struct {
	promise  string
	simulate func(plan) *violation
	left     int
}

// without finds a piece of the given size that can be removed.
func (s *shrinker) without(p plan, size int) (plan, bool) {
	for at := 0; at < len(p.actions) && s.left > 0; at += size {
		q := p
		q.actions = append(append([]action(nil), p.actions[:at]...), p.actions[min(at+size, len(p.actions)):]...)
		if shaken, ok := s.fails(q); ok {
			return shaken, true
		}
	}
	return p, false
}

// fails tries a plan with several interleavings, because the scheduler acts differently with fewer
// actions.
func (s *shrinker) fails(p plan) (plan, bool) {
	for shake := range uint64(shakes) {
		q := p
		q.shake = p.shake + shake
		s.left--
		if v := s.simulate(q); v != nil && v.promise == s.promise {
			return q, true
		}
	}
	return p, false
}

// TestShrink checks that two actions remain of a plan that fails only because of these two, in this
// order and in one of three interleavings.
func TestShrink(t *testing.T) {
	fails := func(p plan) *violation {
		cut := false
		for _, a := range p.actions {
			cut = cut || a.kind == "cut"
			if cut && a.kind == "start" && p.shake%3 == 0 {
				return &violation{promise: "a"}
			}
		}
		return &violation{promise: "another"}
	}
	p := newPlan(1, 60)
	p.actions[20].kind, p.actions[50].kind = "cut", "start"
	short := shrink(p, "a", fails)
	if len(short.actions) != 2 || fails(short).promise != "a" {
		t.Errorf("%d actions are left:\n%s", len(short.actions), short)
	}
}
