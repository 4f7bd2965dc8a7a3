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
	err     error
}

// missing reports that a required parameter is not given.
func (p *params) missing(name, message string) {
	if p.err == nil {
		p.err = &ParamError{Param: name, Message: message, Missing: true}
	}
}

func (p *params) fail(name, message string) {
	if p.err == nil {
		p.err = &ParamError{Param: name, Message: message}
	}
}

// one returns the only given parameter of several spellings; "" = none is given.
func (p *params) one(names ...string) string {
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

// need is one for a parameter that is required.
func (p *params) need(names ...string) string {
	name := p.one(names...)
	if name == "" {
		p.missing(names[0], "is required")
	}
	return name
}

// words reads a list of texts that are not empty.
func (p *params) words(names ...string) []string {
	name := p.need(names...)
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
	return list
}

// count reads a whole number of at least low. It returns -1 if none is given.
func (p *params) count(low int64, names ...string) int64 {
	name := p.one(names...)
	if name == "" {
		return -1
	}
	var n float64
	if json.Unmarshal(p.values[name], &n) != nil || n != math.Trunc(n) || n < float64(low) || n > 1<<53 {
		p.fail(name, "want a whole number, at least "+strconv.FormatInt(low, 10))
	}
	return int64(n)
}

// amount reads a number of at least 0. It returns -1 if none is given.
func (p *params) amount(name string) float64 {
	if p.one(name) == "" {
		return -1
	}
	var n float64
	if json.Unmarshal(p.values[name], &n) != nil || n < 0 {
		p.fail(name, "want a number, at least 0")
	}
	return n
}

func (p *params) flag(name string, normal bool) bool {
	if p.one(name) == "" {
		return normal
	}
	var b bool
	if json.Unmarshal(p.values[name], &b) != nil {
		p.fail(name, "want true or false")
	}
	return b
}

func (p *params) choice(name, normal string, allowed ...string) string {
	if p.one(name) == "" {
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

func (p *params) pattern(name string) *cost.Pattern {
	var text string
	if p.need(name) == "" {
		return nil
	}
	if json.Unmarshal(p.values[name], &text) != nil || text == "" {
		p.fail(name, "want a regular expression")
		return nil
	}
	compiled, err := cost.Compile(text)
	if err != nil {
		p.fail(name, "not a usable regular expression (RE2 syntax): "+err.Error())
	}
	return compiled
}

func (p *params) schema(name string) func(any) []string {
	if p.need(name) == "" {
		return nil
	}
	faults, err := p.schemas(p.values[name])
	if err != nil {
		p.fail(name, "not a usable JSON Schema: "+err.Error())
	}
	return faults
}
