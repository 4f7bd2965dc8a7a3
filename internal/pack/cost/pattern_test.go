package cost

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPatternsOfAPack: they share one allowance of instructions.
func TestPatternsOfAPack(t *testing.T) {
	t.Parallel()
	budget := NewPatterns()
	for i := range maxPrograms/4_500 + 2 {
		_, err := budget.Compile("^" + strings.Repeat("a", i) + strings.Repeat("x{450}", 10))
		if refused := err != nil; refused != (budget.instructionsLeft < 0) {
			t.Fatalf("pattern %d with %d instructions left: %v", i, budget.instructionsLeft, err)
		}
	}
	if budget.instructionsLeft >= 0 {
		t.Error("all of them were taken")
	}
	made := len(budget.compiled)
	for _, text := range []string{"a", "(", "x{999}"} {
		if _, err := budget.Compile(text); !errors.Is(err, errPrograms) {
			t.Errorf("%q was looked at though nothing is left: %v", text, err)
		}
	}
	if len(budget.compiled) != made {
		t.Error("a pattern was made that is refused")
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
