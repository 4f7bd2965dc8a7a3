//go:build sim

package simulation

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Payloads that readers of JSON see differently, read here by nothing that Pawl reads with.

// written is one member of an object, as it is written.
type written struct {
	name  string
	value json.RawMessage
}

// writtenIn are the members of an object in their order, each as often as it is there.
func writtenIn(payload string) (all []written) {
	d := json.NewDecoder(strings.NewReader(payload))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for d.More() {
		name, err := d.Token()
		text, ok := name.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return all
		}
		all = append(all, written{text, value})
	}
	return all
}

// numberIn is the number of a member with exactly that name; nil: there is none.
func numberIn(payload, name string) (n *big.Rat) {
	for _, m := range writtenIn(payload) {
		if m.name == name {
			n, _ = new(big.Rat).SetString(string(m.value))
		}
	}
	return n
}

// doubles: a double keeps each number of an object as it is written.
func doubles(payload string) bool {
	for _, m := range writtenIn(payload) {
		n, ok := new(big.Rat).SetString(string(m.value))
		if !ok {
			continue
		}
		f, _ := strconv.ParseFloat(string(m.value), 64)
		if kept, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64)); !ok || kept.Cmp(n) != 0 {
			return false
		}
	}
	return true
}

// foldedAmount are the members of a call that name its amount, or something that is named like it.
func foldedAmount(dice *rand.Rand, amount int) string {
	other := 110 - amount
	switch dice.IntN(12) {
	case 0:
		return fmt.Sprintf(`"amount":%d,"Amount":%d`, amount, other)
	case 1:
		return fmt.Sprintf(`"AMOUNT":%d,"amount":%d`, other, amount)
	case 2:
		return fmt.Sprintf(`"Amount":%d`, amount)
	case 3:
		return fmt.Sprintf(`"amount":%d.0`, amount)
	case 4:
		return fmt.Sprintf(`"amount":%d0e-1`, amount)
	case 5:
		return fmt.Sprintf(`"amount":%d.00000000000000000001`, amount)
	}
	return fmt.Sprintf(`"amount":%d`, amount)
}

// amountOf are the same, or two members of one name, which are not to be taken.
func amountOf(dice *rand.Rand, amount int) string {
	switch dice.IntN(24) {
	case 0:
		return fmt.Sprintf(`"amount":%d,"amount":%d`, amount, 110-amount)
	case 1:
		return fmt.Sprintf(`"amount":%d,"\u0061mount":%d`, amount, 110-amount)
	}
	return foldedAmount(dice, amount)
}

// letterOf is what an agent is asked for, now and then with another message beside it, which
// is not to be taken.
func letterOf(dice *rand.Rand, text string) string {
	switch dice.IntN(20) {
	case 0:
		return fmt.Sprintf(`{"message":%q,"Message":"something else"}`, text)
	case 1:
		return fmt.Sprintf(`{"MESSAGE":"something else","message":%q}`, text)
	case 2:
		return fmt.Sprintf(`{"message":%q,"message":"something else"}`, text)
	}
	return fmt.Sprintf(`{"message":%q}`, text)
}

// letters are what a run asked agents for, by step, and what it was asked for itself.
type letters struct {
	sent map[uint32]string
	got  string
	// attempts are those that steps had last.
	attempts map[uint32]int
}

func (l *letters) opens(e *machine.Entry) {
	if start, ok := e.Input.Command.(machine.Start); ok && len(start.Input) > 0 {
		l.got = start.Input[0].Text
	}
}

// readable: no call goes out that two readers see differently.
func (o *oracle) readable(e *machine.Entry, b *machine.StepRequested, s *spent) {
	names := map[string]bool{}
	for _, m := range writtenIn(string(b.Payload)) {
		again, folded := names[m.name], m.name != "message" && strings.EqualFold(m.name, "message")
		if names[m.name] = true; again || b.Delegation && folded {
			o.world.fail("every reader sees one value", "%s: step %d of %s asks %s for %s", o.node.name, b.Step, e.RunID, b.Tool, b.Payload)
		}
		if b.Delegation && m.name == "message" {
			var text string
			_ = json.Unmarshal(m.value, &text) // what is no text is told to nobody
			s.letters.sent[b.Step] = text
		}
	}
}

// delivered: an agent was asked for what the record has that was decided about.
func (w *world) delivered() {
	for i, n := range w.stores {
		for run, s := range w.oracles[i].spent {
			if s.parent == nil {
				continue
			}
			lender := w.oracle(n.other).spent[s.parent.RunID]
			if lender == nil {
				continue
			}
			if asked, known := lender.letters.sent[s.parent.Step]; known && asked != s.letters.got {
				w.fail("what is asked for is what an agent gets", "%s: %s got %q, step %d of %s asks for %q", n.name, run, s.letters.got, s.parent.Step, s.parent.RunID, asked)
			}
		}
	}
}
