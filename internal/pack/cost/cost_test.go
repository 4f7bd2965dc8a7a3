package cost

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// counter is a keyword of every schema that counts its applications.
type counter struct{ n *int }

func (c counter) Validate(*jsonschema.ValidatorContext, any) { *c.n++ }

// TestCountIsNeverBelowTheWork compares the count with what the library does, for
// random schemas whose definitions name each other and random values.
func TestCountIsNeverBelowTheWork(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := drawSchema(t)
		var doc any
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		applied := 0
		c := jsonschema.NewCompiler()
		c.UseRegexpEngine(NewPatterns().Compile)
		c.AssertVocabs()
		c.RegisterVocabulary(&jsonschema.Vocabulary{
			URL: "urn:counter",
			Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) {
				return counter{&applied}, nil
			},
		})
		if err := c.AddResource("urn:s", doc); err != nil {
			t.Fatal(err)
		}
		compiled, err := c.Compile("urn:s")
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(compiled); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		value := drawValue(t, 3)
		a := applications{limit: 1 << 30}
		a.countSchema(compiled, value)
		_ = compiled.Validate(value)
		if a.n < applied {
			t.Fatalf("%s over %v: counted %d, the library applied %d", text, value, a.n, applied)
		}
	})
}

// drawSchema draws definitions of which each names later ones only.
func drawSchema(t *rapid.T) string {
	const defs = 6
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range defs {
		sub := func() string {
			if i+1 == defs {
				return `{}`
			}
			return fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, rapid.IntRange(i+1, defs-1).Draw(t, "to"))
		}
		keywords := rapid.SliceOfNDistinct(rapid.IntRange(0, 13), 0, 4, rapid.ID[int]).Draw(t, "keywords")
		var body []string
		for _, k := range keywords {
			body = append(body, []func() string{
				func() string { return `"allOf":[` + sub() + `,` + sub() + `]` },
				func() string { return `"anyOf":[` + sub() + `,` + sub() + `]` },
				func() string { return `"oneOf":[` + sub() + `,{"not":` + sub() + `}]` },
				func() string { return `"not":` + sub() },
				func() string { return `"if":` + sub() + `,"then":` + sub() + `,"else":` + sub() },
				func() string { return `"properties":{"a":` + sub() + `,"b":` + sub() + `}` },
				func() string { return `"patternProperties":{"^a":` + sub() + `}` },
				func() string { return `"additionalProperties":` + sub() },
				func() string { return `"propertyNames":` + sub() },
				func() string { return `"dependentSchemas":{"a":` + sub() + `}` },
				func() string { return `"prefixItems":[` + sub() + `],"items":` + sub() },
				func() string { return `"contains":` + sub() },
				func() string { return `"unevaluatedProperties":` + sub() },
				func() string { return `"unevaluatedItems":` + sub() },
			}[k]())
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"d%d":{%s}`, i, strings.Join(body, ","))
	}
	return b.String() + `}}`
}

func drawValue(t *rapid.T, depth int) any {
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
	case depth == 0 || kind == 0:
		return 1.0
	case kind == 1:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "items"))
		for i := range list {
			list[i] = drawValue(t, depth-1)
		}
		return list
	default:
		object := map[string]any{}
		for _, name := range []string{"a", "b", "c"} {
			if rapid.Bool().Draw(t, name) {
				object[name] = drawValue(t, depth-1)
			}
		}
		return object
	}
}
