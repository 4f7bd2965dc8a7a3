package prompt

import "strings"

// Names of the reserved namespaces.
const (
	artifactsName = "artifacts"
	fragmentsName = "fragments"
)

// Namespace is the set in which the first name of a path is looked up.
type Namespace uint8

const (
	// Variable is a variable of the run.
	Variable Namespace = iota
	// Artifact is an artifact of the run.
	Artifact
	// Fragment is a fragment of the pack.
	Fragment
)

// Ref is one placeholder of a template.
type Ref struct {
	Namespace Namespace
	// Name is the name of the variable, artifact or fragment.
	Name string
	// Path leads from the named value to the value of the placeholder. It is empty for the whole value.
	Path []Segment
	// Offset is the offset of the first byte of the placeholder. End is the offset after its last byte.
	Offset, End int
}

// Segment is one part of a path: a member name, or an index when Name is "".
type Segment struct {
	Name  string
	Index int
}

// Template is a parsed template. Immutable; safe for concurrent use.
type Template struct {
	src  string
	refs []Ref
}

// Parse finds the placeholders of a template. It cannot fail, because all other text is literal text. Its time is linear in the length of
// the source.
func Parse(src string) *Template {
	t := &Template{src: src}
	for i := 0; i < len(src); {
		j := strings.Index(src[i:], "{{")
		if j < 0 {
			break
		}
		i += j
		ref, ok := parseRef(src, i)
		if !ok {
			i++
			continue
		}
		t.refs = append(t.refs, ref)
		i = ref.End
	}
	return t
}

// Refs returns the placeholders in source order. The caller must not change them.
func (t *Template) Refs() []Ref { return t.refs }

// Literals returns the offsets of double braces that are not placeholders, so that a validator can warn about them.
func (t *Template) Literals() []int {
	var out []int
	at := 0
	for _, ref := range t.refs {
		out = literals(out, t.src[:ref.Offset], at)
		at = ref.End
	}
	return literals(out, t.src, at)
}

// literals appends the offsets of "{{" in src, from the offset at on.
func literals(out []int, src string, at int) []int {
	for {
		j := strings.Index(src[at:], "{{")
		if j < 0 {
			return out
		}
		out = append(out, at+j)
		at += j + 2
	}
}

// parseRef reads the placeholder that begins at i.
func parseRef(src string, i int) (Ref, bool) {
	p := parser{src: src, i: i + 2}
	p.blanks()
	names, ok := p.path()
	if !ok {
		return Ref{}, false
	}
	p.blanks()
	if !strings.HasPrefix(src[p.i:], "}}") {
		return Ref{}, false
	}
	ref := Ref{Name: names[0].Name, Path: names[1:], Offset: i, End: p.i + 2}
	if len(ref.Path) > 0 && ref.Path[0].Name != "" {
		switch ref.Name {
		case artifactsName:
			ref.Namespace, ref.Name, ref.Path = Artifact, ref.Path[0].Name, ref.Path[1:]
		case fragmentsName:
			ref.Namespace, ref.Name, ref.Path = Fragment, ref.Path[0].Name, ref.Path[1:]
		}
	}
	return ref, true
}

// maxPath bounds the parts of one path. A placeholder with more parts is literal text.
const maxPath = 64

type parser struct {
	src string
	i   int
}

// path reads identifier { "." identifier | "[" digits "]" }.
func (p *parser) path() ([]Segment, bool) {
	name, ok := p.identifier()
	if !ok {
		return nil, false
	}
	out := []Segment{{Name: name}}
	for p.i < len(p.src) && len(out) <= maxPath {
		switch p.src[p.i] {
		case '.':
			p.i++
			name, ok := p.identifier()
			if !ok {
				return nil, false
			}
			out = append(out, Segment{Name: name})
		case '[':
			n, ok := p.index()
			if !ok {
				return nil, false
			}
			out = append(out, Segment{Index: n})
		default:
			return out, true
		}
	}
	return out, len(out) <= maxPath
}

func (p *parser) identifier() (string, bool) {
	start := p.i
	for p.i < len(p.src) && isIdentifier(p.src[p.i], p.i > start) {
		p.i++
	}
	return p.src[start:p.i], p.i > start
}

// index reads "[digits]" of at most nine digits.
func (p *parser) index() (int, bool) {
	n, start := 0, p.i+1
	for p.i = start; p.i < len(p.src) && p.src[p.i] >= '0' && p.src[p.i] <= '9'; p.i++ {
		if p.i-start >= 9 {
			return 0, false
		}
		n = n*10 + int(p.src[p.i]-'0')
	}
	if p.i == start || p.i >= len(p.src) || p.src[p.i] != ']' {
		return 0, false
	}
	p.i++
	return n, true
}

func (p *parser) blanks() {
	for p.i < len(p.src) && (p.src[p.i] == ' ' || p.src[p.i] == '\t') {
		p.i++
	}
}

// isIdentifier reports whether c may be part of an identifier; digits not at its start.
func isIdentifier(c byte, inside bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || inside && c >= '0' && c <= '9'
}

// IsIdentifier reports whether a template can contain the name as an identifier.
func IsIdentifier(name string) bool {
	for i := range len(name) {
		if !isIdentifier(name[i], i > 0) {
			return false
		}
	}
	return name != ""
}
