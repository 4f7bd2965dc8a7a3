package codec

import (
	"math/rand/v2"
	"testing"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// TestEntrySpan: the outline of an entry is that of the whole.
func TestEntrySpan(t *testing.T) {
	t.Parallel()
	f := &filler{rnd: rand.New(rand.NewPCG(1, 9)), full: true}
	for _, command := range commands {
		value := encode(t, f.entry(command, bodiesAll...))
		e, err := DecodeEntry("run", value)
		if err != nil {
			t.Fatal(err)
		}
		first, records, err := EntrySpan(value)
		if err != nil || first != e.First || records != len(e.Records) || EntryHash(value) != e.Hash {
			t.Errorf("%T: %d with %d records, %v; it is %d with %d", command, first, records, err, e.First, len(e.Records))
		}
		if _, _, err := EntrySpan(value[:len(value)-1]); err == nil {
			t.Errorf("%T: a cut entry has an outline", command)
		}
	}
}

// TestEntryDecides: an entry has a decision exactly if the whole entry has one, and the time is the same, also if the entry is sealed.
func TestEntryDecides(t *testing.T) {
	t.Parallel()
	f, key := &filler{rnd: rand.New(rand.NewPCG(1, 9)), full: true}, testKey(t, 1)
	for _, body := range bodiesAll {
		e := f.entry(machine.DecideStep{}, body)
		plain := encode(t, e)
		sealed, _, _, err := SealEntry(key, e.PrevHash, e.First, &e.Input, e.Records)
		if err != nil {
			t.Fatal(err)
		}
		_, want := body.(*machine.StepDecided)
		for name, value := range map[string][]byte{"plain": plain, "sealed": sealed} {
			if at, decides, err := EntryDecides(value); err != nil || decides != want || at != e.Input.At {
				t.Errorf("%T, %s: %d, %v, %v; it is at %d", body, name, at, decides, err, e.Input.At)
			}
		}
		if _, _, err := EntryDecides(plain[:entryAt-1]); err == nil {
			t.Errorf("%T: a cut entry has an answer", body)
		}
	}
}
