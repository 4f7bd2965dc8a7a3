package source

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// Twice is a name that one object has more than once. The first member with the name is used.
type Twice struct {
	// Path contains the reference tokens that lead to the name. It is valid only during the call.
	Path      []string
	Line, Col int
}

// Read turns the bytes of a document into a tree: it checks the limits, then calls the parser of the format.
// It returns either a tree or a fault. For each repeated name it calls twice; the callee must bound what it
// stores.
func Read(src []byte, limits Limits, twice func(Twice)) (*Node, *Fault) {
	if f := scanBytes(src, limits); f != nil {
		return nil, f
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	if isJSON(src) {
		return boundedJSON(src, limits, twice)
	}
	y := yamlScanner{scanner: scanner{src: src, limits: limits}}
	if f := y.scanYAML(); f != nil {
		return nil, f
	}
	return readYAML(src, limits, twice)
}

// ReadJSON is Read for a document that must be JSON.
func ReadJSON(src []byte, limits Limits, twice func(Twice)) (*Node, *Fault) {
	if f := scanBytes(src, limits); f != nil {
		return nil, f
	}
	return boundedJSON(src, limits, twice)
}

func boundedJSON(src []byte, limits Limits, twice func(Twice)) (*Node, *Fault) {
	if f := BoundJSON(src, limits); f != nil {
		return nil, f
	}
	return ParseJSON(src, twice)
}

// BoundJSON checks a text that may be JSON against the limits of depth, length and number, without parsing
// it.
func BoundJSON(src []byte, limits Limits) *Fault {
	s := scanner{src: src, limits: limits}
	return s.scanJSON()
}

// BoundYAML checks a YAML text that another reader will decode. It checks the limits with aliases expanded, in time linear in the text.
// It accepts a text that is not YAML if the text cannot contain an alias; the other reader then reports the error.
func BoundYAML(src []byte, limits Limits) *Fault {
	if f := scanBytes(src, limits); f != nil {
		return f
	}
	y := yamlScanner{scanner: scanner{src: bytes.TrimPrefix(src, []byte("\xef\xbb\xbf")), limits: limits}}
	if f := y.scanYAML(); f != nil {
		return f
	}
	if !bytes.ContainsRune(src, '*') {
		return nil
	}
	doc, f := parseYAML(y.src)
	if f != nil {
		return f
	}
	r := &yamlReader{limits: limits, sizes: map[*yaml.Node]extent{}}
	_, f = r.measure(doc, 1)
	return f
}

// isJSON reports whether a document is JSON: it begins with { or [.
func isJSON(src []byte) bool {
	rest := bytes.TrimLeft(src, " \t\r\n")
	return len(rest) > 0 && (rest[0] == '{' || rest[0] == '[')
}
