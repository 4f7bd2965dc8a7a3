package assertion

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// maxFaults bounds the faults of a value that a reason names.
const maxFaults = 5

// jsonValid compiles the check that all that the turn says is one JSON value.
func jsonValid(p *params) func(*Turn) Hit {
	find := finder(p)
	return whole(func(text string) string {
		if _, ok := find(text); !ok {
			return "the text is not one JSON value"
		}
		return ""
	})
}

// jsonSchema compiles the check that all that the turn says is one JSON value that the schema accepts.
func jsonSchema(p *params) func(*Turn) Hit {
	find, faultsOf := finder(p), p.schema("schema")
	return whole(func(text string) string {
		value, ok := find(text)
		if !ok {
			return "the text is not one JSON value"
		}
		faults := faultsOf(value)
		if len(faults) == 0 {
			return ""
		}
		return "the JSON value does not conform to the schema: " + strings.Join(faults[:min(len(faults), maxFaults)], "; ")
	})
}

// finder compiles how the JSON value is found in a text. With allow_wrapped it may stand in a fenced block, with extract_json anywhere.
func finder(p *params) func(text string) (any, bool) {
	wrapped, inside := p.flag("allow_wrapped", false), p.flag("extract_json", false)
	return func(text string) (any, bool) {
		if value, ok := decode(text); ok {
			return value, true
		}
		if wrapped || inside {
			if value, ok := decode(fenced(text)); ok {
				return value, true
			}
		}
		if inside {
			return first(text)
		}
		return nil, false
	}
}

func decode(text string) (any, bool) {
	value, err := strictjson.Value([]byte(text))
	return value, err == nil
}

// fenced returns the content of the first fenced block of Markdown, or "".
func fenced(text string) string {
	_, rest, ok := strings.Cut(text, "```")
	if !ok {
		return ""
	}
	_, rest, _ = strings.Cut(rest, "\n")
	block, _, _ := strings.Cut(rest, "```")
	return block
}

// first returns the JSON value between the first opening and the last closing bracket of the text.
func first(text string) (any, bool) {
	from, to := strings.IndexAny(text, "{["), strings.LastIndexAny(text, "}]")
	if from < 0 || to < from {
		return nil, false
	}
	return decode(text[from : to+1])
}
