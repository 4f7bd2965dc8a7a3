package pack

import (
	"strings"
	"testing"
)

// TestPatternsAreBounded: a program that is too large is refused before it is made, in
// the parameters of a tool and in the validation of a variable.
func TestPatternsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("(?:.*a){999}", 10)
	for _, change := range []string{
		`tools.t.parameters = {"type":"object","properties":{"x":{"pattern":"` + long + `"}}}`,
		`tools.t.parameters = {"type":"object","properties":{},"patternProperties":{"` + long + `":{}}}`,
		`prompts.a.variables = [{"name":"v","type":"string","required":false,"validation":{"pattern":"` + long + `"}}]`,
	} {
		p, found, err := Load(changedPack(t, change), Options{})
		if err != nil || p != nil || len(found) == 0 || !strings.Contains(found[0].Message, "more than 10000 instructions") {
			t.Errorf("%.60s: %v, %v, %v", change, p, found, err)
		}
	}
}

// TestPatternsAreWeighed: a payload, or a variable, that would keep a pattern busy is
// refused without being matched; a shorter one is matched.
func TestPatternsAreWeighed(t *testing.T) {
	t.Parallel()
	const busy = "(?:.*a){999}b"
	p := mustLoad(t, changedPack(t, `tools.t.parameters = {"type":"object","properties":{"x":{"pattern":"`+busy+`"}},"propertyNames":{"pattern":"`+busy+`|^x$"},"patternProperties":{"`+busy+`":{}}}`+"\n"+
		`prompts.a.variables = [{"name":"v","type":"string","required":false,"validation":{"pattern":"`+busy+`"}}]`))
	large, small := strings.Repeat("a", 200<<10), strings.Repeat("a", 200)
	for _, payload := range []string{`{"x":"` + large + `"}`, `{"` + large + `":1}`} {
		if faults := p.CheckPayload("t", []byte(payload)); len(faults) != 1 || !strings.Contains(faults[0].Message, "applications") {
			t.Errorf("%.20s: %v", payload, faults)
		}
	}
	if faults := p.CheckPayload("t", []byte(`{"x":"`+small+`"}`)); len(faults) != 1 || faults[0].Field != "payload/x" {
		t.Errorf("a short text is matched: %v", faults)
	}
	_, faults, err := p.CheckVariables(Entry{}, []byte(`{"v":"`+large+`"}`))
	if err != nil || len(faults) != 1 || !strings.Contains(faults[0].Message, "too many to match") {
		t.Errorf("variables: %v, %v", faults, err)
	}
}
