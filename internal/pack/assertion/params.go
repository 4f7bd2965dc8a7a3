package assertion

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack/cost"
)

// params reads the parameters of a check. It keeps the first error.
type params struct {
	values  map[string]json.RawMessage
	schemas Schemas
	weight  int
	err     error
}

// instructionWeight is the weight of one instruction of a pattern. schemaWeight is the weight of a JSON Schema. See
// [Check.Weight].
const instructionWeight, schemaWeight = 16, 256

// setMissing sets the error for a required parameter that is absent.
func (p *params) setMissing(name, message string) {
	if p.err == nil {
		p.err = &ParamError{Param: name, Message: message, Missing: true}
	}
}

func (p *params) fail(name, message string) {
	if p.err == nil {
		p.err = &ParamError{Param: name, Message: message}
	}
}

// oneOf returns the spelling that is set of a parameter with several spellings. Only one of them may be set, and not to null. It returns
// "" if none is set.
func (p *params) oneOf(names ...string) string {
	found := ""
	for _, name := range names {
		raw, ok := p.values[name]
		if !ok {
			continue
		}
		if string(raw) == "null" {
			p.fail(name, "is null; leave it out")
		}
		if found != "" {
			p.fail(name, "is the same as "+found+"; give one of them")
		}
		found = name
	}
	return found
}

// required returns the spelling that is set of a required parameter, as p.oneOf does. If none is set, required sets the error.
func (p *params) required(names ...string) string {
	name := p.oneOf(names...)
	if name == "" {
		p.setMissing(names[0], "is required")
	}
	return name
}

// wordList reads a list of texts, none of which is empty.
func (p *params) wordList(names ...string) []string {
	name := p.required(names...)
	var list []string
	if name == "" {
		return nil
	}
	if json.Unmarshal(p.values[name], &list) != nil || len(list) == 0 {
		p.fail(name, "want a list of texts, at least one")
		return nil
	}
	size := 0
	for _, word := range list {
		if word == "" {
			p.fail(name, "an empty text is in every text")
		}
		if len(word) > maxWord {
			p.fail(name, "has a text of "+strconv.Itoa(len(word))+" bytes; at most "+strconv.Itoa(maxWord))
		}
		size += len(word)
	}
	if len(list) > MaxPatterns || size > MaxPatternBytes {
		p.fail(name, "has "+strconv.Itoa(len(list))+" texts of "+strconv.Itoa(size)+" bytes; at most "+strconv.Itoa(MaxPatterns)+" texts of "+
			strconv.Itoa(MaxPatternBytes)+" bytes")
	}
	p.weight += len(list)
	return list
}

// intAtLeast reads an integer that is at least low. It returns -1 if the parameter is absent.
func (p *params) intAtLeast(low int64, names ...string) int64 {
	name := p.oneOf(names...)
	if name == "" {
		return -1
	}
	var n float64
	if json.Unmarshal(p.values[name], &n) != nil || n != math.Trunc(n) || n < float64(low) || n > 1<<53 {
		p.fail(name, "want a whole number, at least "+strconv.FormatInt(low, 10))
	}
	return int64(n)
}

// amount reads a number that is at least 0. It returns -1 if the parameter is absent.
func (p *params) amount(name string) float64 {
	if p.oneOf(name) == "" {
		return -1
	}
	var n float64
	if json.Unmarshal(p.values[name], &n) != nil || n < 0 {
		p.fail(name, "want a number, at least 0")
	}
	return n
}

func (p *params) boolean(name string, normal bool) bool {
	if p.oneOf(name) == "" {
		return normal
	}
	var b bool
	if json.Unmarshal(p.values[name], &b) != nil {
		p.fail(name, "want true or false")
	}
	return b
}

func (p *params) choice(name, normal string, allowed ...string) string {
	if p.oneOf(name) == "" {
		return normal
	}
	var s string
	_ = json.Unmarshal(p.values[name], &s)
	if slices.Contains(allowed, s) {
		return s
	}
	p.fail(name, "want "+strings.Join(allowed, " or "))
	return normal
}

// pattern reads and compiles a regular expression, and adds its work to the weight of the check.
func (p *params) pattern(name string) *cost.Pattern {
	var text string
	if p.required(name) == "" {
		return nil
	}
	if json.Unmarshal(p.values[name], &text) != nil || text == "" {
		p.fail(name, "want a regular expression")
		return nil
	}
	compiled, err := cost.Compile(text)
	if err != nil {
		p.fail(name, "not a usable regular expression (RE2 syntax): "+err.Error())
		return nil
	}
	p.weight += instructionWeight * compiled.Instructions()
	return compiled
}

func (p *params) schema(name string) Faults {
	if p.required(name) == "" {
		return nil
	}
	p.weight += schemaWeight
	faults, err := p.schemas(p.values[name])
	if err != nil {
		p.fail(name, "not a usable JSON Schema: "+err.Error())
	}
	return faults
}
