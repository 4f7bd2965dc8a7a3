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

// Turn is what one turn said and did, as far as it is known when a check runs.
type Turn struct {
	// Said are the texts of the model for the user, in their order: one answer, or the output of a turn that ends.
	Said []Text
	// Written are the texts that the turn wrote elsewhere, in artifacts.
	Written []Text
	// Ended reports whether the turn ends. Before that, only checks that no later text can satisfy are made.
	Ended bool
	// Calls counts the calls of each tool in the turn that were answered without an error.
	Calls map[string]int
	// CostMicro is what the run has cost so far, in micro-dollars. Tokens is what it has consumed.
	CostMicro, Tokens int64
	// Latency is how long the model took for its answer; 0 = not known.
	Latency time.Duration
}

// Text is a text with its place, for example "artifact plan".
type Text struct{ Place, Text string }

// Hit is the reason why a turn fails a check. The zero Hit means that it passes.
type Hit struct {
	// Place names the text, for example "output, characters 4 to 9"; "" = the turn as a whole.
	Place string
	// Reason is a sentence for the model. Only faults of a JSON value repeat parts of what the model wrote.
	Reason string
}

// Check is one compiled validator. Immutable and safe for concurrent use.
type Check struct {
	typ  string
	test func(*Turn) Hit
}

// Type returns the type as the pack has it.
func (c *Check) Type() string { return c.typ }

// Test returns the first reason for which the turn fails the check, or the zero Hit.
func (c *Check) Test(t *Turn) Hit {
	hit := c.test(t)
	hit.Reason, hit.Place = source.Clip(hit.Reason, maxReason), source.Clip(hit.Place, maxPlace)
	return hit
}

// maxReason and maxPlace bound a hit, in bytes.
const maxReason, maxPlace = 1000, 200

// Schemas compiles a JSON Schema. The function that it returns gives the faults of a value, at most a few.
type Schemas func(raw json.RawMessage) (func(value any) []string, error)

// UnknownError is the error for a type, or a parameter of a type, that this package does not have. The pack may mean a check of another
// program.
type UnknownError struct {
	// Param is the parameter; "" = the type itself is unknown.
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

// ParamError is the error for a parameter that is missing, or whose value cannot be used.
type ParamError struct {
	Param, Message string
	// Missing means that the format allows the document, and that the check would check nothing.
	Missing bool
}

func (e *ParamError) Error() string { return e.Param + ": " + e.Message }

// MaxPatterns bounds the words of one check, and MaxPatternBytes their total size. A check of a text of 1 MiB then takes less than a second.
const (
	MaxPatterns     = 500
	MaxPatternBytes = 16 << 10
	maxWord         = 1024
)

// kind is a type of check: its parameters, and how it compiles.
type kind struct {
	params  []string
	compile func(*params) func(*Turn) Hit
}

// Types returns the known types without their older spellings, sorted.
func Types() []string { return slices.Sorted(maps.Keys(kinds)) }

// Params returns the parameters of a type, sorted; nil = the type is unknown.
func Params(typ string) []string {
	k, _ := kindOf(typ)
	return slices.Sorted(slices.Values(k.params))
}

// Compile compiles the check of a type with its parameters, a JSON object or nothing.
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
		// PromptKit reads a message for the user here as well.
		if name != "message" && !slices.Contains(k.params, name) {
			return nil, &UnknownError{Param: name, Known: Params(typ)}
		}
	}
	test := k.compile(p)
	if p.err != nil {
		return nil, p.err
	}
	return &Check{typ: typ, test: test}, nil
}
