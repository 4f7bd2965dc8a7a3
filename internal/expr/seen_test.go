package expr

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/pawl-dev/pawl/internal/strictjson"
	"github.com/pawl-dev/pawl/test/testkit/jsonvalues"
)

// shown is what an expression sees, written back: doubles by their shortest digits.
func shown(t testing.TB, value any) string {
	switch v := value.(type) {
	case float64:
		return strconv.FormatFloat(v, 'e', -1, 64)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case map[string]any:
		out := make(map[string]json.RawMessage, len(v))
		for name, member := range v {
			out[name] = json.RawMessage(shown(t, member))
		}
		value = out
	case []any:
		out := make([]json.RawMessage, len(v))
		for i := range v {
			out[i] = json.RawMessage(shown(t, v[i]))
		}
		value = out
	}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// checkValue: an expression sees the very value of a text, or nothing of it.
func checkValue(t testing.TB, text string) {
	t.Helper()
	seen, err := Value([]byte(text))
	fault := strictjson.Check([]byte(text))
	switch {
	case fault != nil && err == nil:
		t.Errorf("%q is seen as %v, and the strict reader says %v", text, seen, fault)
	case fault == nil && err == nil && !jsonvalues.Equal(shown(t, seen), text):
		t.Errorf("%q is seen as %s", text, shown(t, seen))
	case fault == nil && err != nil && strictjson.Doubles([]byte(text)) == nil:
		t.Errorf("%q has doubles only, and is not seen: %v", text, err)
	}
}

// TestSeen: what a condition sees of each value is the value that leaves.
func TestSeen(t *testing.T) {
	t.Parallel()
	for _, v := range jsonvalues.All {
		checkValue(t, v.Text)
		checkValue(t, "["+v.Text+"]")
	}
}

// FuzzSeen: the view of an expression and the strict reader never differ.
func FuzzSeen(f *testing.F) {
	for _, v := range jsonvalues.All {
		f.Add(v.Text)
	}
	f.Add(`[9007199254740992,9007199254740993,-9223372036854775808,18446744073709551615,18446744073709551616,1e23,0.1e1,5e-324]`)
	f.Fuzz(func(t *testing.T, text string) { checkValue(t, text) })
}
