package pack

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/pack/cost"
)

// doublingSchema is a schema of n definitions that each apply the one before twice.
func doublingSchema(n int, keyword string) string {
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
		"allOf doubled 24 times": {doublingSchema(24, "allOf"), "applies more than 4096 schemas to one value"},
		"anyOf doubled 24 times": {doublingSchema(24, "anyOf"), "applies more than 4096 schemas to one value"},
		"oneOf doubled 24 times": {doublingSchema(24, "oneOf"), "applies more than 4096 schemas to one value"},
		"below items":            {strings.Replace(doublingSchema(24, "allOf"), `"$ref":"#/$defs/d24"}`, `"items":{"$ref":"#/$defs/d24"}}`, 1), "applies more than 4096"},
		"as dependent schema":    {strings.Replace(doublingSchema(24, "allOf"), `"$ref":"#/$defs/d24"}`, `"dependentSchemas":{"a":{"$ref":"#/$defs/d24"}}}`, 1), "applies more than 4096"},
		"unevaluated properties": {strings.Replace(doublingSchema(24, "allOf"), `"$ref":"#/$defs/d24"}`, `"unevaluatedProperties":{"$ref":"#/$defs/d24"}}`, 1), "applies more than 4096"},
		"itself":                 {`{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, "applies itself to the same value"},
		"each other":             {`{"$defs":{"a":{"not":{"$ref":"#/$defs/b"}},"b":{"if":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}`, "applies itself to the same value"},
		"dynamic":                {`{"$defs":{"a":{"$dynamicAnchor":"a"}},"$dynamicRef":"#a"}`, "dynamic references are not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := compileParameters("t", cost.NewPatterns(), []byte(c.schema))
			if err != nil {
				t.Fatal(err)
			}
			err = cost.Check(s.compiled)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want an error with %q", err, c.says)
			}
		})
	}
}

func TestCostlySchemaIsAFindingOfThePack(t *testing.T) {
	t.Parallel()
	p, found, err := Load(changedPack(t, "tools.t.parameters = "+doublingSchema(24, "allOf")), Options{})
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
		"ten levels":     doublingSchema(10, "allOf"),
		"long enum":      `{"enum":["` + strings.Repeat(`a","`, 20_000) + `b"]}`,
	} {
		s, err := compileParameters("t", cost.NewPatterns(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := cost.Check(s.compiled); err != nil {
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
			p := mustLoad(t, changedPack(t, "tools.t.parameters = "+c.schema))
			faults := p.CheckPayload("t", []byte(c.payload))
			refused := len(faults) == 1 && faults[0].Field == "payload" && strings.Contains(faults[0].Message, "250000 applications")
			if refused != c.refused || !refused && len(faults) > 0 {
				t.Errorf("faults %v, want refused %v", faults, c.refused)
			}
		})
	}
}
