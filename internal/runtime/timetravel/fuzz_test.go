package timetravel

import "testing"

// FuzzDiffJSON: two documents are compared or refused; one does not differ from itself.
func FuzzDiffJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":null}]}`), []byte(`{"a":[1.0,{"c":"x"}],"~/":1}`))
	f.Add([]byte(`[]`), []byte(`nonsense`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if _, _, err := diffJSON(a, b); err != nil {
			return
		}
		if changes, _, err := diffJSON(a, a); err != nil || len(changes) != 0 {
			t.Fatalf("%q differs from itself: %v, %v", a, changes, err)
		}
	})
}
