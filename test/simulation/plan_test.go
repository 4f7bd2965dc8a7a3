//go:build sim

package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// plan is what happens in a simulation. Everything that the plan does not determine comes from the
// seeds of the scheduler.
type plan struct {
	seed uint64
	// shake changes the scheduler for the same actions. Shrinking tries several values.
	shake   uint64
	knobs   knobs
	actions []action
}

// knobs are settings of a seed. Small caches and slow disks find faults that large and fast ones hide.
type knobs struct {
	cache, tail   int64
	queue         int
	sync, late    time.Duration
	marks         time.Duration
	shuffle, give uint64
	// evening is how long after the beginning of the simulation a new day and a new month begin.
	evening time.Duration
	// calm means that there are no crashes and no faults, so that only races can fail.
	calm bool
}

// action is one action, some time after the action before it.
type action struct {
	after time.Duration
	// together means that the action does not wait for the outcome of the action before it.
	together bool
	kind     kind
	// node it is about, and the seed of everything else that it chooses.
	node int
	dice uint64
}

func (a action) String() string {
	if a.together {
		return fmt.Sprintf("with it %s@%d", a.kind, a.node)
	}
	return fmt.Sprintf("+%v %s@%d", a.after, a.kind, a.node)
}

type kind string

// chance is the weight of an action, in times of 100. fault means that the action is a fault.
type chance struct {
	kind   kind
	weight int
	fault  bool
}

// What can happen, and how often of some 100 times.
var kinds = []chance{
	{"start", 14, false}, {"emit", 12, false}, {"decide", 6, false}, {"input", 5, false}, {"drive", 10, false},
	{"cancel", 2, false}, {"pause", 4, false}, {"resume", 4, false}, {"resolve", 3, false}, {"again", 12, false},
	{"answer", 6, false}, {"crowd", 6, false}, {"delete", 4, false}, {"put webhook", 4, false}, {"delete webhook", 4, false}, {"ack", 3, false}, {"list", 3, false},
	{"talk", 10, false}, {"fork", 4, false},
	{"say", 6, false}, {"stop", 3, false},
	{"start till", 9, false}, {"consider", 12, false}, {"raise", 4, false}, {"fund", 1, false},
	{"kill", 3, true}, {"power", 3, true}, {"cut", 3, true}, {"kill worker", 3, true}, {"full", 1, true},
	{"slow disk", 2, true}, {"broken disk", 1, true}, {"rot", 1, true}, {"jump", 2, true}, {"trip", 8, true}, {"wait", 6, false},
}

// newPlan makes the plan of a seed.
func newPlan(seed uint64, steps int) plan {
	dice := rand.New(rand.NewPCG(seed, 0x5eed))
	p := plan{seed: seed, knobs: knobs{
		cache: pick(dice, int64(1), 64<<10, 64<<20), tail: pick(dice, int64(1<<10), 1<<20), queue: pick(dice, 4, 256),
		sync:    pick(dice, 0, time.Millisecond, 20*time.Millisecond),
		late:    pick(dice, 0, 5*time.Millisecond, 500*time.Millisecond),
		marks:   pick(dice, time.Second, 10*time.Second),
		shuffle: pick(dice, uint64(0), 32, 128, 256), give: pick(dice, uint64(0), 4, 32),
		calm: dice.IntN(8) == 0, evening: pick(dice, 0, 10*time.Second, 30*time.Second),
	}}
	for range steps {
		p.actions = append(p.actions, newAction(dice, p.knobs.calm))
	}
	p.actions = withMembers(p.actions, seed, p.knobs.calm)
	p.actions = withWards(p.actions, seed, p.knobs.calm)
	p.actions = withMessages(p.actions, seed, p.knobs.calm)
	return p
}

func newAction(dice *rand.Rand, calm bool) action {
	a := action{node: dice.IntN(2), dice: dice.Uint64()}
	switch dice.IntN(6) {
	case 0:
		a.together = true
	case 1, 2: // at once
	case 3, 4:
		a.after = time.Duration(dice.IntN(30)) * time.Millisecond
	case 5:
		a.after = time.Duration(dice.IntN(4000)) * time.Millisecond
	}
	a.kind = pickKind(dice, calm, kinds, "wait")
	return a
}

// mixed inserts more actions after each action, as many as times returns.
func mixed(actions []action, times func() int, more func() action) (all []action) {
	for _, a := range actions {
		all = append(all, a)
		for range times() {
			all = append(all, more())
		}
	}
	return all
}

// oneIn returns 1 with a probability of 1 in `of`, else 0.
func oneIn(dice *rand.Rand, of int) func() int {
	return func() int {
		if dice.IntN(of) == 0 {
			return 1
		}
		return 0
	}
}

// pickKind is one of them, of the calm ones if nothing is to go wrong.
func pickKind(dice *rand.Rand, calm bool, kinds []chance, otherwise kind) kind {
	total := 0
	for _, k := range kinds {
		if !calm || !k.fault {
			total += k.weight
		}
	}
	n := dice.IntN(total)
	for _, k := range kinds {
		if calm && k.fault {
			continue
		}
		if n -= k.weight; n < 0 {
			return k.kind
		}
	}
	return otherwise
}

func pick[T any](dice *rand.Rand, of ...T) T { return of[dice.IntN(len(of))] }

// String is the plan for people.
func (p plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d shake %d %+v\n", p.seed, p.shake, p.knobs)
	for i, a := range p.actions {
		fmt.Fprintf(&b, "%3d %s\n", i, a)
	}
	return b.String()
}
