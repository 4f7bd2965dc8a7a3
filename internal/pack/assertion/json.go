package assertion

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// jsonWeight is the weight of a check that decodes a JSON value. See [Check.Weight].
const jsonWeight = 64

// maxFaults limits the faults of a value that a reason lists.
const maxFaults = 5

// jsonValid compiles the check that the texts of the turn together are one JSON value.
func jsonValid(p *params) func(*Turn) Violation {
	find := finder(p)
	return wholeTextCheck(func(text string) (string, float64) {
		if _, ok := find(text); !ok {
			return "the text is not one JSON value", 0
		}
		return "", 1
	})
}

// jsonSchema compiles the check that the texts of the turn together are one JSON value that satisfies a schema.
func jsonSchema(p *params) func(*Turn) Violation {
	find, faultsOf := finder(p), p.schema("schema")
	return wholeTextCheck(func(text string) (string, float64) {
		value, ok := find(text)
		if !ok {
			return "the text is not one JSON value", 0
		}
		faults, err := faultsOf(value)
		switch {
		case err != nil:
			return err.Error(), -1
		case len(faults) == 0:
			return "", 1
		}
		return "the JSON value does not conform to the schema: " + strings.Join(faults[:min(len(faults), maxFaults)], "; "), 0
	})
}

// finder compiles the search for the JSON value in a text. With allow_wrapped, the value may be in a fenced code block. With
// extract_json, it may be anywhere in the text.
func finder(p *params) func(text string) (any, bool) {
	p.weight += jsonWeight
	wrapped, inside := p.boolean("allow_wrapped", false), p.boolean("extract_json", false)
	return func(text string) (any, bool) {
		if value, ok := decode(text); ok {
			return value, true
		}
		if wrapped || inside {
			if value, ok := decode(fencedBlock(text)); ok {
				return value, true
			}
		}
		if inside {
			return firstJSON(text)
		}
		return nil, false
	}
}

func decode(text string) (any, bool) {
	value, err := strictjson.Value([]byte(text))
	return value, err == nil
}

// fencedBlock returns the content of the first fenced code block of Markdown, or "".
func fencedBlock(text string) string {
	_, rest, ok := strings.Cut(text, "```")
	if !ok {
		return ""
	}
	_, rest, _ = strings.Cut(rest, "\n")
	block, _, _ := strings.Cut(rest, "```")
	return block
}

// firstJSON returns the JSON value that begins at the first opening bracket of the text and ends at the last closing one.
func firstJSON(text string) (any, bool) {
	from, to := strings.IndexAny(text, "{["), strings.LastIndexAny(text, "}]")
	if from < 0 || to < from {
		return nil, false
	}
	return decode(text[from : to+1])
}
