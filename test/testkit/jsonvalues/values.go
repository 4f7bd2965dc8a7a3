package jsonvalues

import (
	"encoding/json"
	"strings"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// Value is a JSON object from a caller.
type Value struct {
	Name, Text string
	// Refused is a word of the refusal, of every way in; "" = it is taken.
	Refused string
	// Double means that every number of the value is exactly a 64-bit floating-point number. Data of A2A has no others.
	Double bool
}

// All is the table.
var All = []Value{
	{Name: "plain", Text: `{"n":1,"s":"x"}`, Double: true},
	{Name: "two cases of a name", Text: `{"amount":1,"Amount":200,"AMOUNT":null}`, Double: true},
	{Name: "1.10", Text: `{"n":1.10,"m":1.1}`, Double: true},
	{Name: "exponents", Text: `{"n":[4.99e1,1e2,1E+2,5e-7,-0,1e22]}`, Double: true},
	{Name: "2^53+1", Text: `{"n":9007199254740993,"deep":[{"n":-9007199254740993}]}`},
	{Name: "above 2^64", Text: `{"n":18446744073709551617}`},
	{Name: "many digits", Text: `{"n":0.1234567890123456789012}`},
	{Name: "2^60", Text: `{"n":1152921504606846976}`},
	{Name: "characters", Text: `{"n":"\ud83d\ude00 <&> \u2028 é","😀":"\u0000"}`, Double: true},
	{Name: "deep", Text: `{"n":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`, Double: true},
	{Name: "a name twice", Text: `{"n":1,"n":2}`, Refused: "twice"},
	{Name: "a name twice by its escape", Text: `{"n":1,"\u006e":2}`, Refused: "twice"},
	{Name: "a name twice below", Text: `{"a":[{"n":1,"n":1}]}`, Refused: "twice"},
	{Name: "half a character", Text: `{"n":"\ud83d"}`, Refused: "surrogate"},
	{Name: "half a character in a name", Text: `{"\ude00":1}`, Refused: "surrogate"},
	{Name: "too deep", Text: `{"n":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`, Refused: "nest"},
	{Name: "too large an exponent", Text: `{"n":1e1000}`, Refused: "exponent"},
}

// Equal reports whether two texts are the same JSON value. The order of members and the spelling of
// characters and numbers do not count.
func Equal(a, b string) bool {
	x, err := strictjson.Value([]byte(a))
	y, other := strictjson.Value([]byte(b))
	return err == nil && other == nil && withExactNumbers(x) == withExactNumbers(y)
}

// withExactNumbers is a value with each number by its exact value.
func withExactNumbers(value any) string {
	raw, err := json.Marshal(exactly(value))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func exactly(value any) any {
	switch v := value.(type) {
	case json.Number:
		return "number " + strictjson.Decimal(v.String())
	case map[string]any:
		for name := range v {
			v[name] = exactly(v[name])
		}
	case []any:
		for i := range v {
			v[i] = exactly(v[i])
		}
	}
	return value
}
