package machine

import (
	"bytes"
	"strings"
)

// Form is how the values of a media type are written down.
type Form uint8

const (
	// FormUnset is no form: a write without a claim.
	FormUnset Form = iota
	FormBytes
	FormJSON
	FormText
)

// String names the form as the API does.
func (f Form) String() string {
	names := [...]string{FormUnset: "unset", FormBytes: "data", FormJSON: "json", FormText: "text"}
	if int(f) < len(names) {
		return names[f]
	}
	return "unknown"
}

// FormOf reads a media type without its parameters, in any case: JSON for
// application/json and +json, text for text/*, bytes for all others.
func FormOf(mediaType string) Form {
	base, _, _ := strings.Cut(mediaType, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	switch {
	case base == "application/json" || strings.HasSuffix(base, "+json"):
		return FormJSON
	case strings.HasPrefix(base, "text/"):
		return FormText
	}
	return FormBytes
}

// FoldArtifact returns the value that a list of writes, in order, amounts to:
// for Replace the last one; for Append one JSON array (a value that is no array
// is one element), text joined by "\n", or other bytes in a row. No writes are
// nil. JSON values must be valid; they are taken over byte by byte.
func FoldArtifact(mediaType string, mode Mode, values [][]byte) []byte {
	if len(values) == 0 {
		return nil
	}
	if mode == Replace {
		return values[len(values)-1]
	}
	switch FormOf(mediaType) {
	case FormJSON:
		return foldJSON(values)
	case FormText:
		return bytes.Join(values, []byte("\n"))
	}
	return bytes.Join(values, nil)
}

func foldJSON(values [][]byte) []byte {
	out := []byte{'['}
	for _, v := range values {
		v = bytes.TrimSpace(v)
		if len(v) > 1 && v[0] == '[' {
			v = bytes.TrimSpace(v[1 : len(v)-1])
		}
		if len(v) == 0 {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}
