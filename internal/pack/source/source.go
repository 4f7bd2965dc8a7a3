package source

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// DuplicateName describes a name that occurs more than once in an object. The first member with the name is
// used.
type DuplicateName struct {
	// Path contains the reference tokens of the path to the name. It is valid only during the call.
	Path      []string
	Line, Col int
}

// Read converts the bytes of a document to a tree. It checks the limits and then calls the parser of the format. It returns either a tree
// or a fault. For each repeated name, it calls the function that the parameter twice contains. That function must limit what it stores.
func Read(src []byte, limits Limits, twice func(DuplicateName)) (*Node, *Fault) {
	if f := scanBytes(src, limits); f != nil {
		return nil, f
	}
	src = bytes.TrimPrefix(src, []byte("\xef\xbb\xbf"))
	if IsJSON(src) {
		return boundedJSON(src, limits, twice)
	}
	y := yamlScanner{scanner: scanner{src: src, limits: limits}}
	if f := y.scanYAML(); f != nil {
		return nil, f
	}
	return readYAML(src, limits, twice)
}

// ReadJSON does the same as Read for a document that must be JSON. It does not skip a byte order mark.
func ReadJSON(src []byte, limits Limits, twice func(DuplicateName)) (*Node, *Fault) {
	if f := scanBytes(src, limits); f != nil {
		return nil, f
	}
	return boundedJSON(src, limits, twice)
}

func boundedJSON(src []byte, limits Limits, twice func(DuplicateName)) (*Node, *Fault) {
	if f := BoundJSON(src, limits); f != nil {
		return nil, f
	}
	return ParseJSON(src, twice)
}

// BoundJSON checks a text that may be JSON against the limits of depth, length and number of values. It
// does not parse the text.
func BoundJSON(src []byte, limits Limits) *Fault {
	s := scanner{src: src, limits: limits}
	return s.scanJSON()
}

// BoundYAML checks a YAML text that another reader will decode. It checks the limits with aliases
// expanded. The time is linear in the length of the text. If a text is not YAML and cannot contain an
// alias, BoundYAML accepts it, and the other reader reports the error.
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

// IsJSON reports whether a document is JSON. This is the case if it begins with { or [.
func IsJSON(src []byte) bool {
	rest := bytes.TrimLeft(src, " \t\r\n")
	return len(rest) > 0 && (rest[0] == '{' || rest[0] == '[')
}
