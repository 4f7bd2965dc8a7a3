package assertion

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// Turn is the input of a check: the texts, tool calls and costs of one turn, as far as they are known when the check runs. For an eval it
// can be a visit or a whole run instead. Said then contains its last output.
type Turn struct {
	// Said are the texts of the model for the user, in order: one answer, the output of a turn that ends, or the last output of a visit or
	// run.
	Said []Text
	// Written are the texts that the turn wrote into artifacts.
	Written []Text
	// Earlier are the outputs of a visit or run before the last one. They are read only by contains_any and by the checks of words and
	// patterns that must not occur. Only evals set it.
	Earlier []Text
	// Ended reports whether the turn, the visit or the run has ended. Before the end, a check is made only if no later text could make it
	// pass.
	Ended bool
	// Calls counts the calls of each tool in the turn, visit or run that were answered without an error.
	Calls map[string]int
	// CostMicro is the cost of the run so far, in micro-dollars. Tokens is the number of tokens that it has used so far.
	CostMicro, Tokens int64
	// Latency is the time that the model took for its answer. For a turn, visit or run it is the time since its beginning. 0 means that it
	// is not known.
	Latency time.Duration
}

// Text is a text and the place where it was found, for example "artifact plan".
type Text struct{ Place, Text string }

// Violation describes why a turn, a visit or a run fails a check. The zero Violation means that it passes.
type Violation struct {
	// Place names the text with the fault, for example "output, characters 4 to 9". "" means the turn as a whole.
	Place string
	// Reason is a sentence for the model, or for the reader of a result. It repeats parts of the model's text only if the fault is in a
	// JSON value.
	Reason string
	// Score is the fraction of the check that is fulfilled, at least 0 and less than 1. It is -1 if the check was not made because it needs
	// too much work. Validators ignore it.
	Score float64
}

// Check is one compiled check of a validator or an eval. It is immutable and safe for concurrent use.
type Check struct {
	typ    string
	test   func(*Turn) Violation
	weight int
}

// Weight returns the work of a check for each byte of the texts. The unit is about the work of searching one byte for a word. The work of
// a JSON Schema depends on the value. Weight contains only a constant for it, and [Schemas] limits it.
func (c *Check) Weight() int { return c.weight }

// Type returns the type of the check, as the pack spells it.
func (c *Check) Type() string { return c.typ }

// Test returns why the turn, visit or run fails the check. It returns the zero Violation if it passes. Long texts are cut off.
func (c *Check) Test(t *Turn) Violation {
	hit := c.test(t)
	hit.Reason, hit.Place = source.Clip(hit.Reason, maxReason), source.Clip(hit.Place, maxPlace)
	return hit
}

// maxReason and maxPlace limit the texts of a violation, in bytes.
const maxReason, maxPlace = 1000, 200

// Schemas compiles a JSON Schema to a function that returns the faults of a value, at most a few. The error of that function means that
// checking the value needs more work than the caller allows.
type Schemas func(raw json.RawMessage) (Faults, error)

// Faults returns the faults of a value. See [Schemas].
type Faults func(value any) ([]string, error)

// UnknownError is the error for a type of check, or for a parameter, that this package does not know. Another program may know it.
type UnknownError struct {
	// Param is the unknown parameter. "" means that the type itself is unknown.
	Param string
	// Known are the known names, sorted.
	Known []string
}

func (e *UnknownError) Error() string {
	if e.Param == "" {
		return "the type is not known; known: " + strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("the parameter %q is not known; known: %s", e.Param, strings.Join(e.Known, ", "))
}

// ParamError is the error for a parameter that is missing or has a value that cannot be used.
type ParamError struct {
	Param, Message string
	// Missing means that the format allows the document without this parameter, but the check would then check nothing.
	Missing bool
}

func (e *ParamError) Error() string { return e.Param + ": " + e.Message }

// MaxPatterns limits the number of words in one check. MaxPatternBytes limits their total size. With these limits, the check of a text of 1
// MiB takes less than a second.
const (
	MaxPatterns     = 500
	MaxPatternBytes = 16 << 10
	maxWord         = 1024
)

// kind is a type of check, with its parameters and its compiler.
type kind struct {
	params  []string
	compile func(*params) func(*Turn) Violation
}

// Types returns the known types, sorted. It does not contain their older spellings.
func Types() []string { return slices.Sorted(maps.Keys(kinds)) }

// Params returns the parameters of a type, sorted. It returns nil if the type is unknown.
func Params(typ string) []string {
	k, _ := kindOf(typ)
	return slices.Sorted(slices.Values(k.params))
}

// Compile compiles a check from its type and its parameters. raw is a JSON object, or empty.
//
// Errors: [*UnknownError], [*ParamError].
func Compile(typ string, raw json.RawMessage, schemas Schemas) (*Check, error) {
	k, ok := kindOf(typ)
	if !ok {
		return nil, &UnknownError{Known: Types()}
	}
	p := &params{schemas: schemas}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &p.values); err != nil {
			return nil, &ParamError{Param: "params", Message: "want an object"}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		// PromptKit accepts the parameter "message", a message for the user, in every type.
		if name != "message" && !slices.Contains(k.params, name) {
			return nil, &UnknownError{Param: name, Known: Params(typ)}
		}
	}
	test := k.compile(p)
	if p.err != nil {
		return nil, p.err
	}
	return &Check{typ: typ, test: test, weight: max(p.weight, 1)}, nil
}
