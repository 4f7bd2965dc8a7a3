package pack

import (
	"regexp/syntax"
	"strings"
	"testing"

	"pgregory.net/rapid"
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
		p, found, err := Load(changed(t, change), Options{})
		if err != nil || p != nil || len(found) == 0 || !strings.Contains(found[0].Message, "more than 10000 instructions") {
			t.Errorf("%.60s: %v, %v, %v", change, p, found, err)
		}
	}
	budget := newPatterns()
	for i := range maxPrograms/4_500 + 2 {
		_, err := budget.compile("^" + strings.Repeat("a", i) + strings.Repeat("x{450}", 10))
		if refused := err != nil; refused != (budget.left < 0) {
			t.Fatalf("pattern %d with %d instructions left: %v", i, budget.left, err)
		}
	}
	if budget.left >= 0 {
		t.Error("all of them were taken")
	}
}

// TestPatternsAreWeighed: a payload, or a variable, that would keep a pattern busy is
// refused without being matched; a shorter one is matched.
func TestPatternsAreWeighed(t *testing.T) {
	t.Parallel()
	const busy = "(?:.*a){999}b"
	p := mustLoad(t, changed(t, `tools.t.parameters = {"type":"object","properties":{"x":{"pattern":"`+busy+`"}},"propertyNames":{"pattern":"`+busy+`|^x$"},"patternProperties":{"`+busy+`":{}}}`+"\n"+
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

// TestProgramsAreCounted: never less than what the compiler makes, but for the two that begin and end it.
func TestProgramsAreCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`(\(\?:)?(a|b\*|c\+|d\?|\[x-z\]|\.|e\{2,7\}|f\{3,\}|\(g\|hi\)\{4\}){0,6}`).Draw(t, "pattern")
		tree, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return
		}
		prog, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := syntax.Parse(text, syntax.Perl); programOf(again)+2 < len(prog.Inst) {
			t.Errorf("%q: counted %d, compiled %d", text, programOf(again), len(prog.Inst))
		}
	})
}
