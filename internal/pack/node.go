package pack

import (
	"strconv"
	"strings"
)

// nodeKind is the JSON type of a node.
type nodeKind uint8

const (
	nullNode nodeKind = iota
	boolNode
	numberNode
	stringNode
	arrayNode
	objectNode
)

// node is one value of a document with its place in the source. JSON and YAML
// are read into the same tree; everything after reading works on it.
type node struct {
	kind nodeKind
	flag bool
	num  float64
	text string
	// line and col are 1-based; col counts characters.
	line, col int
	items     []*node
	members   []member
}

// member is one name and value of an object, in source order.
type member struct {
	name      string
	line, col int
	value     *node
}

// get returns the first member of that name; nil if there is none.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for i := range n.members {
		if n.members[i].name == name {
			return n.members[i].value
		}
	}
	return nil
}

// plain converts the tree to the values of encoding/json.
func (n *node) plain() any {
	switch n.kind {
	case boolNode:
		return n.flag
	case numberNode:
		return n.num
	case stringNode:
		return n.text
	case arrayNode:
		list := make([]any, len(n.items))
		for i, item := range n.items {
			list[i] = item.plain()
		}
		return list
	case objectNode:
		obj := make(map[string]any, len(n.members))
		for _, m := range n.members {
			obj[m.name] = m.value.plain()
		}
		return obj
	default:
		return nil
	}
}

// position finds the place of the value at pointer, or of the deepest ancestor
// that exists. Objects and arrays are placed at their member name, as is
// everything when key is set.
func (n *node) position(pointer string, key bool) (line, col int) {
	if n == nil {
		return 0, 0
	}
	cur, line, col := n, n.line, n.col
	for _, tok := range pointerTokens(pointer) {
		next, keyLine, keyCol := cur.child(tok)
		if next == nil {
			return line, col
		}
		cur, line, col = next, next.line, next.col
		if keyLine > 0 && (key || next.kind >= arrayNode) {
			line, col = keyLine, keyCol
		}
	}
	return line, col
}

// child returns the member or item of that name and the place of its name.
func (n *node) child(tok string) (*node, int, int) {
	if n.kind == arrayNode {
		i, err := strconv.Atoi(tok)
		if err != nil || i < 0 || i >= len(n.items) {
			return nil, 0, 0
		}
		return n.items[i], 0, 0
	}
	for i := range n.members {
		if n.members[i].name == tok {
			return n.members[i].value, n.members[i].line, n.members[i].col
		}
	}
	return nil, 0, 0
}

var (
	pointerEscape   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// pointer joins reference tokens to an RFC 6901 JSON pointer.
func pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(pointerEscape.Replace(t))
	}
	return b.String()
}

// pointerTokens splits a pointer made by [pointer].
func pointerTokens(p string) []string {
	if p == "" {
		return nil
	}
	parts := strings.Split(p[1:], "/")
	for i := range parts {
		parts[i] = pointerUnescape.Replace(parts[i])
	}
	return parts
}

// index is a reference token for an array element.
func index(i int) string { return strconv.Itoa(i) }
