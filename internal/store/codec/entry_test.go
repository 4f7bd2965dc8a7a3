package codec

import (
	"math/rand/v2"
	"testing"
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
