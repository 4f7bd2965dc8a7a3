package machine

import (
	"bytes"
	"strings"
)

// Form is how a value of an artifact is given in the API: as bytes, as JSON or as text.
type Form uint8

const (
	// FormUnset means that the caller did not specify a form.
	FormUnset Form = iota
	FormBytes
	FormJSON
	FormText
)

// String returns the name of the form in the API.
func (f Form) String() string {
	names := [...]string{FormUnset: "unset", FormBytes: "data", FormJSON: "json", FormText: "text"}
	if int(f) < len(names) {
		return names[f]
	}
	return "unknown"
}

// FormOf returns the form of the values of a media type: JSON for application/json and +json, text for text/*, and bytes for all others.
// It ignores parameters and case.
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

// FoldArtifact returns the value of an artifact after a list of writes, in order. With Replace this is the last value.
// With Append, JSON values become one array (a value that is not an array becomes one element), texts are joined by
// "\n", and values of other media types are concatenated. Without writes it returns nil. JSON values must be valid.
// Their bytes are not changed.
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

// foldJSON joins values into one JSON array. The elements of a value that is an array are taken one by one.
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
