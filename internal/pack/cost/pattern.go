package cost

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// These constants bound the cost of a pack's regular expressions. The time that RE2 takes is
// proportional to the size of the program and the length of the text, and both may be large. For
// example, the 17 characters (?:.*a){999}b become a program of 3 000 instructions, which needs half a
// minute for a text of 256 KiB.
const (
	// maxProgram bounds the number of instructions of one pattern. maxPrograms bounds the number of instructions of all patterns of one
	// [Patterns], for example of the tools of a pack, because a compiled instruction takes about 50 bytes.
	maxProgram, maxPrograms = 10_000, 250_000
	// stepsPerApplication is the number of program steps that count as one application of a schema. A
	// step is one instruction at one byte.
	stepsPerApplication = 64
)

// Pattern is a compiled regular expression with its cost.
type Pattern struct {
	*regexp.Regexp
	// program is the number of instructions of the pattern. It may be slightly too high.
	program int
}

// Instructions returns the number of instructions of the pattern. It may be slightly too high.
func (p *Pattern) Instructions() int { return p.program }

// Compile compiles a pattern in RE2 syntax. If its program would be too large, Compile returns an error
// before it compiles it.
func Compile(text string) (*Pattern, error) {
	program, err := countInstructions(text)
	if err != nil {
		return nil, err
	}
	return compile(text, program)
}

// countInstructions counts the instructions of a pattern, up to the limit.
func countInstructions(text string) (int, error) {
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	program := programOf(tree)
	if program > maxProgram {
		return 0, fmt.Errorf("the pattern is a program of more than %d instructions; repeat less", maxProgram)
	}
	return program, nil
}

// compile compiles a pattern whose instructions were counted.
func compile(text string, program int) (*Pattern, error) {
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &Pattern{compiled, program}, nil
}

// Patterns compiles the patterns of several schemas of one pack, for example of all tools, to the form that the JSON Schema library
// requires.
type Patterns struct {
	// compiled contains the compiled pattern for each text. The library compiles each pattern twice, and
	// packs repeat patterns.
	compiled map[string]*Pattern
	// instructionsLeft is the number of instructions that further patterns may have. It is negative after the limit was exceeded.
	instructionsLeft int
}

// errPrograms is the error if the patterns of a pack exceed the limit.
var errPrograms = fmt.Errorf("the patterns of the pack's tools are programs of more than %d instructions; repeat less", maxPrograms)

// NewPatterns returns a compiler that has compiled no pattern yet.
func NewPatterns() *Patterns {
	return &Patterns{compiled: map[string]*Pattern{}, instructionsLeft: maxPrograms}
}

// Compile is the function that the library calls to compile a regular expression. After the limit is
// exceeded, it compiles no more patterns, because a pack may have 40 000 of them.
func (p *Patterns) Compile(text string) (jsonschema.Regexp, error) {
	if known := p.compiled[text]; known != nil {
		return known, nil
	}
	if p.instructionsLeft < 0 {
		return nil, errPrograms
	}
	program, err := countInstructions(text)
	if err != nil {
		return nil, err
	}
	if p.instructionsLeft -= program; p.instructionsLeft < 0 {
		return nil, errPrograms
	}
	compiled, err := compile(text, program)
	if err != nil {
		return nil, err
	}
	p.compiled[text] = compiled
	return compiled, nil
}

// programOf returns the number of instructions that the compiler creates for a syntax tree. The
// compiler expands each repetition. programOf stops counting when the limit is exceeded.
func programOf(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpConcat:
		n = 0
	case syntax.OpCapture:
		n = 2
	case syntax.OpAlternate:
		n = len(re.Sub)
	case syntax.OpRepeat:
		return repetitionSize(re)
	}
	for _, sub := range re.Sub {
		if n += programOf(sub); n > maxProgram {
			return maxProgram + 1
		}
	}
	return n
}

// repetitionSize counts the instructions of a repetition. Each optional copy needs one more instruction.
func repetitionSize(re *syntax.Regexp) int {
	one := programOf(re.Sub[0])
	if re.Max < 0 {
		return min((re.Min+1)*one+1, maxProgram+1)
	}
	return min(re.Max*one+re.Max-re.Min, maxProgram+1)
}

// weigh returns the work of matching a text. The unit is one application of a schema.
func (p *Pattern) weigh(text string) int { return 1 + p.program*len(text)/stepsPerApplication }

// Affordable reports whether a match stays within [MaxApplications].
func (p *Pattern) Affordable(text string) bool { return p.weigh(text) <= MaxApplications }

// weighPattern returns the work of matching a text with a pattern that the library has compiled with
// [Patterns.Compile].
func weighPattern(re jsonschema.Regexp, text string) int {
	if p, ok := re.(*Pattern); ok {
		return p.weigh(text)
	}
	return 1
}
