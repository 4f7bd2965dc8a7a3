package validate

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzCanonical: what is equal as JSON stays so, a second pass changes nothing, and what
// is none is not touched.
func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":1, "a":[1.50,{"y":null,"x":"\ud83d\ude00"}]}`))
	f.Add([]byte(`{"a":1}{"b":2}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		once := Canonical(raw)
		if json.Valid(raw) != json.Valid(once) {
			t.Fatalf("%q became %q", raw, once)
		}
		if twice := Canonical(once); !bytes.Equal(once, twice) {
			t.Fatalf("%q, then %q", once, twice)
		}
		short, changed := Compact(raw)
		if !changed && !bytes.Equal(short, raw) || json.Valid(raw) != json.Valid(short) {
			t.Fatalf("%q became %q", raw, short)
		}
	})
}
