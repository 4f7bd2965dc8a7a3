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

// These are payloads that readers of JSON interpret differently. The simulator reads them with its own code,
// and not with Pawl's.

// written is one member of an object, with its original value.
type written struct {
	name  string
	value json.RawMessage
}

// writtenIn returns the members of an object in their order, with all repeated members.
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

// numberIn returns the number in a member with exactly that name. nil means that there is none.
func numberIn(payload, name string) (n *big.Rat) {
	for _, m := range writtenIn(payload) {
		if m.name == name {
			n, _ = new(big.Rat).SetString(string(m.value))
		}
	}
	return n
}

// doubles reports whether doubles represent all numbers of an object exactly.
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

// foldedAmount returns members of a call with its amount, in different spellings. Some results have a member
// with a similar name.
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

// amountOf returns the same as foldedAmount, or sometimes two members with one name, which must be refused.
func amountOf(dice *rand.Rand, amount int) string {
	switch dice.IntN(24) {
	case 0:
		return fmt.Sprintf(`"amount":%d,"amount":%d`, amount, 110-amount)
	case 1:
		return fmt.Sprintf(`"amount":%d,"\u0061mount":%d`, amount, 110-amount)
	}
	return foldedAmount(dice, amount)
}

// letterOf returns the input of an agent. Sometimes it has a second, differently spelled message, which
// must be refused.
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

// letters are the messages that a run sent to agents, by step, and the message that it received itself.
type letters struct {
	sent map[uint32]string
	got  string
	// attempts are the last attempts of the steps.
	attempts map[uint32]int
}

func (l *letters) opens(e *machine.Entry) {
	if start, ok := e.Input.Command.(machine.Start); ok && len(start.Input) > 0 {
		l.got = start.Input[0].Text
	}
}

// readable checks that no call is made whose payload two readers interpret differently.
func (o *oracle) readable(e *machine.Entry, b *machine.StepRequested, s *spent) {
	names := map[string]bool{}
	for _, m := range writtenIn(string(b.Payload)) {
		again, folded := names[m.name], m.name != "message" && strings.EqualFold(m.name, "message")
		if names[m.name] = true; again || b.Delegation && folded {
			o.world.fail("every reader sees one value", "%s: step %d of %s asks %s for %s", o.node.name, b.Step, e.RunID, b.Tool, b.Payload)
		}
		if b.Delegation && m.name == "message" {
			var text string
			_ = json.Unmarshal(m.value, &text) // a message that is not a text reaches no agent
			s.letters.sent[b.Step] = text
		}
	}
}

// delivered checks that an agent received exactly the payload in the record that was approved.
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
