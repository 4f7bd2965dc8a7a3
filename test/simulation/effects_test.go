//go:build sim

package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// seats are the business keys of each node. There are few, so that several runs want the same one. Two
// of them are the same number for a reader that uses doubles.
var seats = []string{"1", "2", "3", "9007199254740992", "9007199254740993"}

// seatOf is the payload of a booking: the same number is written in several ways.
func seatOf(dice *rand.Rand) string {
	n := pick(dice, seats...)
	return fmt.Sprintf(`{"seat":%s}`, pick(dice, n, n, n+".0", n+"e0", n+"0e-1", "0."+n+fmt.Sprintf("e%d", len(n))))
}

// bookings are the state outside of the sidecars that the tools "book", "booked" and "unbook" of
// testdata/pack.json change and read. A seat can be booked once. Unlike for the tool "charge", the
// other side does not recognize repeated keys: a repeated request has a second effect. After "booked"
// has answered that a booking did not happen, it never happens.
type bookings struct {
	world *world
	mu    sync.Mutex
	tick  int
	// byKey are the bookings by the idempotency key of their call. bySeat are the bookings that were
	// not undone.
	byKey  map[string]*booking
	bySeat map[string]*booking
	// flights are the calls in progress. asked are the steps to which "booked" answered for a key that
	// it is not booked.
	flights map[string][]*flight
	asked   map[string]map[string]bool
	closed  map[string]bool
	undone  map[string]string
	busy    busy
}

// booking is an effect. undone is the time at which it was undone; 0 = it was not undone.
type booking struct {
	key, seat string
	undone    int
}

// flight is one call of "book" that had no effect yet.
type flight struct{ void bool }

func newBookings(w *world) *bookings {
	return &bookings{
		world: w, byKey: map[string]*booking{}, bySeat: map[string]*booking{}, flights: map[string][]*flight{},
		asked: map[string]map[string]bool{}, closed: map[string]bool{}, undone: map[string]string{}, busy: busy{},
	}
}

// tools adds the tools of bookings to those of a worker of a node.
func (b *bookings) tools(n *node, all map[string]pawl.ToolFunc) {
	all["book"] = func(ctx context.Context, s *pawl.Step) (json.RawMessage, error) {
		defer b.enters(n, s)()
		return b.book(ctx, n, s)
	}
	all["booked"] = func(ctx context.Context, s *pawl.Step) (json.RawMessage, error) {
		defer b.enters(n, s)()
		return b.booked(ctx, s)
	}
	all["unbook"] = b.unbook
}

// stepDice returns the random generator of an attempt of a step.
func stepDice(s *pawl.Step) *rand.Rand {
	lease := s.Assignment.GetLease()
	return diceOf(lease.GetRunId(), uint64(lease.GetStep()), uint64(lease.GetAttempt()))
}

// linger takes the time of a tool. The process may end during this time.
func (b *bookings) linger(ctx context.Context, dice *rand.Rand) error {
	if b.world.healing {
		return ctx.Err()
	}
	if dice.IntN(25) == 0 {
		return pause(ctx, 9*time.Second) // this is longer than the timeout of the step
	}
	return pause(ctx, time.Duration(dice.IntN(700))*time.Millisecond)
}

func (b *bookings) declines(dice *rand.Rand, of int) error {
	if b.world.healing || dice.IntN(of) > 0 {
		return nil
	}
	return &pawl.Failure{Code: "DECLINED", Message: "try again"}
}

// book books a seat. It waits before the effect and again before the answer.
func (b *bookings) book(ctx context.Context, n *node, s *pawl.Step) (json.RawMessage, error) {
	number := numberIn(s.Assignment.GetPayloadJson(), "seat")
	if number == nil {
		return nil, &pawl.Failure{Code: "NO_SEAT", Message: s.Assignment.GetPayloadJson(), Final: true}
	}
	f, key, dice := &flight{}, s.IdempotencyKey(), stepDice(s)
	b.mu.Lock()
	b.flights[key] = append(b.flights[key], f)
	b.mu.Unlock()
	if err := b.linger(ctx, dice); err != nil {
		return nil, err
	}
	if err := b.declines(dice, 4); err != nil {
		return nil, err
	}
	seat := n.name + "/" + number.RatString()
	if err := b.take(key, seat, f, int(s.Assignment.GetLease().GetAttempt())); err != nil {
		return nil, err
	}
	if err := b.linger(ctx, dice); err != nil {
		return nil, err
	}
	return b.tells(dice, fmt.Appendf(nil, `{"booked":%q}`, key))
}

// tells returns the result of a call. Sometimes the result is one that the sidecar refuses, or the tool
// itself does not know the outcome. In both cases the effect may have happened.
func (b *bookings) tells(dice *rand.Rand, result json.RawMessage) (json.RawMessage, error) {
	if b.world.healing {
		return result, nil
	}
	switch dice.IntN(12) {
	case 0:
		return json.RawMessage("no JSON"), nil
	case 1:
		return json.RawMessage("\"\xff\""), nil
	case 2:
		return nil, &pawl.Failure{Code: "NO_ANSWER", Message: "it may have happened", Unknown: true}
	}
	return result, nil
}

func (b *bookings) take(key, seat string, f *flight, attempt int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.void || b.closed[key] || attempt <= len(b.asked[key]) {
		return &pawl.Failure{Code: "TOO_LATE", Message: key}
	}
	if b.byKey[key] != nil {
		b.world.fail("an effect that happened is not done again", "%s is booked twice under %s", seat, key)
	}
	if other := b.bySeat[seat]; other != nil {
		b.world.fail("one effect for each business key", "%s is booked under %s and %s", seat, other.key, key)
	}
	done := &booking{key: key, seat: seat}
	b.byKey[key], b.bySeat[seat] = done, done
	b.world.note("%s is booked under %s", seat, key)
	return nil
}

// about is what the sidecar sends to a reconcile tool or a compensate tool.
type about struct {
	Key     string `json:"idempotency_key"`
	Tool    string
	Outcome string
}

func aboutOf(s *pawl.Step) (a about, err error) {
	err = json.Unmarshal([]byte(s.Assignment.GetPayloadJson()), &a)
	if err == nil && (a.Tool != "book" || a.Key == "") {
		err = fmt.Errorf("about %+v", a)
	}
	return a, err
}

// booked answers whether a call of "book" happened.
func (b *bookings) booked(ctx context.Context, s *pawl.Step) (json.RawMessage, error) {
	a, err := aboutOf(s)
	if err != nil {
		b.world.fail("who knows is asked", "%v", err)
		return nil, err
	}
	dice := stepDice(s)
	if err := errorsFirst(b.linger(ctx, dice), b.declines(dice, 8)); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byKey[a.Key] != nil {
		return fmt.Appendf(nil, `{"happened":true,"result":{"booked":%q}}`, a.Key), nil
	}
	for _, f := range b.flights[a.Key] {
		f.void = true
	}
	if b.asked[a.Key] == nil {
		b.asked[a.Key] = map[string]bool{}
	}
	b.asked[a.Key][s.IdempotencyKey()] = true
	b.world.note("%s is not booked", a.Key)
	return json.RawMessage(`{"happened":false}`), nil
}

func errorsFirst(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// unbook cancels a booking. If there is no booking, it returns no error.
func (b *bookings) unbook(ctx context.Context, s *pawl.Step) (json.RawMessage, error) {
	a, err := aboutOf(s)
	if err != nil {
		b.world.fail("what was done is undone", "%v", err)
		return nil, err
	}
	dice := stepDice(s)
	if err := errorsFirst(b.linger(ctx, dice), b.declines(dice, 6)); err != nil {
		return nil, err
	}
	b.giveBack(&a, s.IdempotencyKey())
	if err := b.linger(ctx, dice); err != nil {
		return nil, err
	}
	return b.tells(dice, json.RawMessage(`{}`))
}

func (b *bookings) giveBack(a *about, by string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if first, known := b.undone[a.Key]; known && first != by {
		b.world.fail("what was done is undone once", "%s is given back under %s and %s", a.Key, first, by)
	}
	b.undone[a.Key], b.closed[a.Key] = by, true
	done := b.byKey[a.Key]
	switch {
	case done == nil && a.Outcome == "ok":
		b.world.fail("what was done is undone", "%s was never booked", a.Key)
	case done != nil && done.undone == 0:
		b.tick++
		done.undone = b.tick
		delete(b.bySeat, done.seat)
		b.world.note("%s is given back by %s", a.Key, by)
	}
}

// of returns the bookings of a run by their steps.
func (b *bookings) of(run string) map[uint32]*booking {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[uint32]*booking{}
	for key, done := range b.byKey {
		if owner, step, _ := strings.Cut(key, "/"); owner == run {
			n, _ := strconv.ParseUint(step, 10, 32)
			out[uint32(n)] = done
		}
	}
	return out
}

// happened records that a step had its effect.
func (b *bookings) happened(run string, step uint32) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byKey[machine.IdempotencyKey(run, step)] != nil
}

// effects are the effects of a run, computed from its records without the machine.
type effects struct {
	// order are the successful bookings of the run, in the order of their answers.
	order []uint32
	// asked are all steps that booked.
	asked map[uint32]bool
	// failed are the steps that certainly failed.
	failed []uint32
	// undoing means that the effects of the run are being undone. by is the principal that began this.
	// followed is the first record of the entry that follows the event afterwards.
	undoing  bool
	by       string
	followed uint64
	// undos counts the calls that undo an effect. No budget stops them.
	undos int
	// refused are the requests of a turn that were refused because another step had the effect.
	refused map[refusal]bool
}

// refusal is an effect that a turn asked for under a key of its steps.
type refusal struct {
	turn   uint64
	key    string
	effect [32]byte
}

func newEffects() effects {
	return effects{asked: map[uint32]bool{}, refused: map[refusal]bool{}}
}

// wanted are the effects that an input asks for under a key, of those that are refused or not.
func wanted(e *machine.Entry, key string, refused bool) (effects [][32]byte) {
	asked, _ := e.Input.Command.(machine.RequestSteps)
	for i := range asked.Requests {
		r := &asked.Requests[i]
		mine := r.Key == key || len(asked.Requests) == 1
		if denied := r.Denied != nil && r.Denied.Code == machine.DuplicateEffect; mine && denied == refused && r.Effect != [32]byte{} {
			effects = append(effects, r.Effect)
		}
	}
	return effects
}

// taken checks that a call is refused for the effect of another step only if that step asked for the
// same number, in any spelling.
func (o *oracle) taken(e *machine.Entry, b *machine.StepRejected) {
	asked, ok := e.Input.Command.(machine.RequestSteps)
	if !ok || b.Denial.Code != machine.DuplicateEffect {
		return
	}
	for i := range asked.Requests {
		r := &asked.Requests[i]
		if r.Tool != "book" || r.Key != b.Key && len(asked.Requests) > 1 {
			continue
		}
		if seat := numberIn(string(r.Payload), "seat"); seat != nil && !o.seats[seat.RatString()] {
			o.world.fail("another number is another effect", "%s: %s is refused %s, which nobody asked for before", o.node.name, e.RunID, r.Payload)
		}
	}
}

// effected checks what one record says about effects.
func (o *oracle) effected(e *machine.Entry, r *machine.Record, f *effects) {
	switch b := r.Body.(type) {
	case *machine.StepRequested:
		if b.Tool == "book" && b.About == nil {
			f.asked[b.Step] = true
			if seat := numberIn(string(b.Payload), "seat"); seat != nil {
				o.seats[seat.RatString()] = true
			}
			for _, effect := range wanted(e, b.Key, false) {
				if f.refused[refusal{b.TurnSeq, b.Key, effect}] {
					o.world.fail("what was refused in a turn stays refused", "%s: %s asks for step %d under %q, which was another's effect before", o.node.name, e.RunID, b.Step, b.Key)
				}
			}
		}
		if b.About != nil && b.About.Role == machine.RoleCompensate {
			f.undos++
		}
	case *machine.StepRejected:
		o.taken(e, b)
		for _, effect := range wanted(e, b.Key, true) {
			f.refused[refusal{b.TurnSeq, b.Key, effect}] = true
		}
	case *machine.StepResolved:
		if f.asked[b.Step] && b.Next == 0 {
			o.booked(e, b, f)
		}
	case *machine.CompensationStarted:
		if !f.undoing {
			f.undoing, f.by = true, e.Input.Principal
		}
	case *machine.Transition:
		if f.undoing {
			o.undone(e, f, b.Uncompensated)
			// Later effects are undone separately. The effects that remain are listed, so they no longer count.
			for _, stood := range b.Uncompensated {
				delete(f.asked, stood.Step)
			}
			f.undoing, f.followed, f.order = false, e.First, nil
		}
	case *machine.Ended:
		if b.Status != machine.Completed {
			o.undone(e, f, b.Uncompensated)
		}
		if f.undoing = false; b.Status == machine.Completed && len(b.Uncompensated) > 0 {
			o.world.fail("what was done is undone", "%s: %s is completed and lists %+v", o.node.name, e.RunID, b.Uncompensated)
		}
	}
}

// booked checks that a step that reports success had its effect, and that a step that certainly failed
// had none.
func (o *oracle) booked(e *machine.Entry, b *machine.StepResolved, f *effects) {
	happened := o.world.bookings.happened(e.RunID, b.Step)
	switch {
	case b.OK:
		f.order = append(f.order, b.Step)
		if !happened {
			o.world.fail("an effect that did not happen is done", "%s: step %d of %s is answered %s, and nothing is booked", o.node.name, b.Step, e.RunID, b.Result)
		}
	case !b.Unknown:
		f.failed = append(f.failed, b.Step)
		if happened {
			o.world.fail("an error is no effect", "%s: step %d of %s is answered %s, and is booked", o.node.name, b.Step, e.RunID, b.Error.Code)
		}
	}
}

// effected compares, at the end, the certainly failed steps with the effects that happened since.
func (w *world) effected() {
	w.note("%d bookings, %d undone", len(w.bookings.byKey), w.bookings.tick)
	for _, o := range w.oracles {
		for _, run := range slices.Sorted(maps.Keys(o.spent)) {
			for _, step := range o.spent[run].effects.failed {
				if w.bookings.happened(run, step) {
					w.fail("an error is no effect", "%s: step %d of %s failed, and is booked", o.node.name, step, run)
				}
			}
		}
	}
}

// undone checks that only the listed effects of the run remain, and that the effects were undone in
// reverse order.
func (o *oracle) undone(e *machine.Entry, f *effects, standing []machine.UncompensatedEffect) {
	stands := map[uint32]bool{}
	for _, s := range standing {
		stands[s.Step] = true
	}
	done := o.world.bookings.of(e.RunID)
	for _, step := range slices.Sorted(maps.Keys(done)) {
		if f.asked[step] && done[step].undone == 0 && !stands[step] {
			o.world.fail("what was done is undone", "%s: %s goes on by record %d, and step %d has %s, which is not listed", o.node.name, e.RunID, e.First, step, done[step].seat)
		}
	}
	last := 0
	for _, step := range slices.Backward(f.order) {
		at := done[step]
		if at == nil || at.undone == 0 {
			continue
		}
		if at.undone < last {
			o.world.fail("the last effect is undone first", "%s: step %d of %s was undone before one that was answered later", o.node.name, step, e.RunID)
		}
		last = at.undone
	}
}
