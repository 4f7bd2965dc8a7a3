package pack

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// doubling is a schema of n definitions that each apply the one before twice.
func doubling(n int, keyword string) string {
	var b strings.Builder
	b.WriteString(`{"$defs":{"d0":{"type":"object"}`)
	for i := range n {
		fmt.Fprintf(&b, `,"d%d":{"%s":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, keyword, i, i)
	}
	fmt.Fprintf(&b, `},"$ref":"#/$defs/d%d"}`, n)
	return b.String()
}

// nesting doubles at each level of the value instead of at one value.
const nesting = `{"type":"object","properties":{},"$defs":{"n":{"properties":{"x":{"allOf":[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]}}}},"$ref":"#/$defs/n"}`

func TestCostlySchemasAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ schema, says string }{
		"allOf doubled 24 times": {doubling(24, "allOf"), "applies more than 4096 schemas to one value"},
		"anyOf doubled 24 times": {doubling(24, "anyOf"), "applies more than 4096 schemas to one value"},
		"oneOf doubled 24 times": {doubling(24, "oneOf"), "applies more than 4096 schemas to one value"},
		"below items":            {strings.Replace(doubling(24, "allOf"), `"$ref":"#/$defs/d24"}`, `"items":{"$ref":"#/$defs/d24"}}`, 1), "applies more than 4096"},
		"as dependent schema":    {strings.Replace(doubling(24, "allOf"), `"$ref":"#/$defs/d24"}`, `"dependentSchemas":{"a":{"$ref":"#/$defs/d24"}}}`, 1), "applies more than 4096"},
		"unevaluated properties": {strings.Replace(doubling(24, "allOf"), `"$ref":"#/$defs/d24"}`, `"unevaluatedProperties":{"$ref":"#/$defs/d24"}}`, 1), "applies more than 4096"},
		"itself":                 {`{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, "applies itself to the same value"},
		"each other":             {`{"$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"if":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}`, "applies itself to the same value"},
		"dynamic":                {`{"$defs":{"a":{"$dynamicAnchor":"a"}},"$dynamicRef":"#a"}`, "dynamic references are not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := compileParameters("t", newPatterns(), []byte(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			err = schemaCost{}.check(s.compiled)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error with %q", err, c.says)
			}
		})
	}
}

func TestCostlySchemaIsAFindingOfThePack(t *testing.T) {
	t.Parallel()
	p, found, err := Load(changed(t, "tools.t.parameters = "+doubling(24, "allOf")), Options{})
	if err != nil || p != nil {
		t.Fatalf("pack %v, %v", p, err)
	}
	if d := found[0]; d.Code != ruleToolSchema || d.Pointer != "/tools/t/parameters" || !strings.Contains(d.Message, "4096") {
		t.Errorf("finding %+v", d)
	}
}

func TestOrdinarySchemasAreAffordable(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"recursive tree": `{"$defs":{"n":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}}}},"$ref":"#/$defs/n"}`,
		"ten levels":     doubling(10, "allOf"),
		"long enum":      `{"enum":["` + strings.Repeat(`a","`, 20_000) + `b"]}`,
	} {
		s, err := compileParameters("t", newPatterns(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := (schemaCost{}).check(s.compiled); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// xInX is {"x":{"x":…{}}}.
func xInX(depth int) string {
	return strings.Repeat(`{"x":`, depth) + "{}" + strings.Repeat("}", depth)
}

func TestPayloadsThatCostTooMuchAreRefusedUnchecked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema, payload string
		refused         bool
	}{
		"doubled at each of 15 levels":  {nesting, xInX(15), false},
		"doubled at each of 16 levels":  {nesting, xInX(16), true},
		"doubled at each of 60 levels":  {nesting, xInX(60), true},
		"four more schemas at an item":  {`{"type":"object","properties":{"x":{"items":{"$ref":"#/$defs/s"}}},"$defs":{"s":{"allOf":[{},{},{},{}]}}}`, `{"x":[1,2,3]}`, false},
		"a long enum over a long array": {`{"type":"object","properties":{"x":{"items":{"enum":[` + strings.Repeat(`1,`, 20_000) + `2]}}}}`, `{"x":[` + strings.Repeat(`2,`, 1000) + `2]}`, true},
		"an array of 100 000 numbers":   {`{"type":"object","properties":{"x":{"items":{"type":"number"}}}}`, `{"x":[` + strings.Repeat(`1,`, 90_000) + `1]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mustLoad(t, changed(t, "tools.t.parameters = "+c.schema))
			faults := p.CheckPayload("t", []byte(c.payload))
			refused := len(faults) == 1 && faults[0].Field == "payload" && strings.Contains(faults[0].Message, "250000 applications")
			if refused != c.refused || !refused && len(faults) > 0 {
				t.Errorf("faults %v, want refused %v", faults, c.refused)
			}
		})
	}
}

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
		c := newCompiler(newPatterns())
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
		if err := (schemaCost{}).check(compiled); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		value := drawValue(t, 3)
		a := applications{limit: 1 << 30}
		a.count(compiled, value)
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
