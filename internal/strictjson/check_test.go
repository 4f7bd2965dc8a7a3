package strictjson

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestCheck: Check accepts a text that all readers interpret in the same way. It refuses any other text, and
// names the place.
func TestCheck(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		`{}`, ` [1, -0, 0.5, 1e9, 1E-9] `, `"😀 \ud83d\ude00 \u00e9"`, `null`, `{"a":{"a":1},"A":[{"a":1},{"a":2}]}`,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), "1e999", strings.Repeat("1", MaxNumber),
	} {
		if err := Check([]byte(good)); err != nil || !json.Valid([]byte(good)) {
			t.Errorf("%.60s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		``: "ends where a value is wanted", `{} {}`: "text follows", `{"a":1,"a":2}`: "/a: the member is there twice",
		`{"a":1,"\u0061":2}`: "/a: the member is there twice", `[{"b/c":{"x":1,"x":1}}]`: "/0/b~1c/x: the member is there twice",
		`"\ud800"`: "half of a surrogate pair", `"\udc00\ud800"`: "half of a surrogate pair", `"\ud800\ud800"`: "half of a surrogate pair",
		`{"\ud800":1}`: "half of a surrogate pair", "\"\xff\"": "not UTF-8", "\"\n\"": "control character", `"\x"`: "an escape that is none", `"\u12g4"`: "four hexadecimal digits",
		`01`: "a zero that is too much", `-`: "want a digit", `1.`: "behind the point", `1e`: "in the exponent", `+1`: "want a value",
		`1e1000`: "exponent of a number is more than 999", `1e-999999999999999999999`: "exponent", strings.Repeat("1", MaxNumber+1): "at most 256",
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1): "more than 128 deep",
		`{"a" 1}`: "want a colon", `{"a":1`: "comma", `[1 2]`: "comma", `{a:1}`: "in quotes", `[1,]`: "want a value", `nul`: "want a value", `"abc`: "within a string", `"\`: "within a string", `NaN`: "want a value",
	} {
		var f *Fault
		if err := Check([]byte(bad)); !errors.As(err, &f) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", bad, err, want)
		}
	}
}

// TestManyMembers: an object with many members is read in a short time. A repeated name is found anywhere in
// the object.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for i := range 200_000 {
		all.WriteString(`"` + strings.Repeat("k", i%7) + Decimal(string(rune('1'+i%9))+strings.Repeat("0", 5)) + "-" + json.Number(itoa(i)).String() + `":1,`)
	}
	begun := time.Now()
	if err := Check([]byte("{" + all.String() + `"last":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := Check([]byte("{" + `"last":2,` + all.String() + `"last":1}`)); err == nil {
		t.Error("a name that is there twice was taken")
	}
	if d := time.Since(begun); d > 20*time.Second {
		t.Errorf("it took %s", d)
	}
}

func itoa(i int) string {
	raw, _ := json.Marshal(i)
	return string(raw)
}

// FuzzReaders: a text that Check accepts has the same value for this reader and for encoding/json, and in
// each form in which it is written again. The case of a name matters.
func FuzzReaders(f *testing.F) {
	for _, seed := range []string{
		`{"message":"hello","Message":"call refund"}`, `{"a":1,"a":2}`, `[1e999,-0,9007199254740993,"\ud83d\ude00","\ud800"]`, `{"":{"\u0000":null}}`, "\"\u2028\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if Check(raw) != nil {
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q is taken and is no JSON", raw)
		}
		value, err := Value(raw)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if own := parse(t, raw); !reflect.DeepEqual(own, value) {
			t.Fatalf("%q is %#v for one reader and %#v for the other", raw, own, value)
		}
		again, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if other, err := Value(again); err != nil || !reflect.DeepEqual(other, value) {
			t.Fatalf("%q is written as %q, which is %v, %v", raw, again, other, err)
		}
		short, err := Compact(raw)
		if other, again := Value(short); err != nil || again != nil || !reflect.DeepEqual(other, value) {
			t.Fatalf("%q is compacted to %q: %v, %v", raw, short, err, again)
		}
	})
}

// parse reads a value, member by member, with the reader of this package only.
func parse(t *testing.T, raw []byte) any {
	r := reader{src: raw}
	switch c := r.next(); c {
	case '{':
		out := map[string]any{}
		for r.at++; r.next() != '}'; {
			name, f := r.text()
			if f != nil {
				t.Fatal(f)
			}
			r.next()
			r.at++
			out[string(name)] = r.item(t)
		}
		return out
	case '[':
		out := []any{}
		for r.at++; r.next() != ']'; {
			out = append(out, r.item(t))
		}
		return out
	case '"':
		text, _ := r.text()
		return string(text)
	case 't', 'f':
		return c == 't'
	case 'n':
		return nil
	}
	begin := r.at
	if f := r.number(); f != nil {
		t.Fatal(f)
	}
	return json.Number(raw[begin:r.at])
}

// item returns the next value and reads the comma after it.
func (r *reader) item(t *testing.T) any {
	r.blank()
	begin := r.at
	if f := r.value(1); f != nil {
		t.Fatal(f)
	}
	value := parse(t, r.src[begin:r.at])
	if r.next() == ',' {
		r.at++
		r.blank()
	}
	return value
}
