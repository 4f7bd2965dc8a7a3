package source

import (
	"strconv"
	"strings"
)

// Kind is the JSON type of a node.
type Kind uint8

// The kinds of JSON.
const (
	Null Kind = iota
	Bool
	Number
	String
	Array
	Object
)

// Node is one value of a document with its position in the source. JSON and YAML are read into the same
// kind of tree. All later code works on this tree.
type Node struct {
	Kind Kind
	// Flag, Num and Text contain the value of a scalar. The kind of the node determines which of them
	// is used.
	Flag bool
	Num  float64
	Text string
	// Line and Col begin at 1. Col counts characters.
	Line, Col int
	Items     []*Node
	Members   []Member
}

// Member is one name and its value in an object. Members are in source order.
type Member struct {
	Name      string
	Line, Col int
	Value     *Node
}

// Get returns the first member with the name. It returns nil if there is none.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Members {
		if n.Members[i].Name == name {
			return n.Members[i].Value
		}
	}
	return nil
}

// Plain converts the tree to the values that encoding/json would return.
func (n *Node) Plain() any {
	switch n.Kind {
	case Bool:
		return n.Flag
	case Number:
		return n.Num
	case String:
		return n.Text
	case Array:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			list[i] = item.Plain()
		}
		return list
	case Object:
		obj := make(map[string]any, len(n.Members))
		for _, m := range n.Members {
			obj[m.Name] = m.Value.Plain()
		}
		return obj
	default:
		return nil
	}
}

// Position returns the position of the value at pointer. If the value does not exist, it returns the
// position of the nearest existing value above it. The position of an object or array is the position
// of its member name. If key is set, the position of every value is the position of its member name.
func (n *Node) Position(pointer string, key bool) (line, col int) {
	if n == nil {
		return 0, 0
	}
	cur, line, col := n, n.Line, n.Col
	for _, tok := range PointerTokens(pointer) {
		next, keyLine, keyCol := cur.Child(tok)
		if next == nil {
			return line, col
		}
		cur, line, col = next, next.Line, next.Col
		if keyLine > 0 && (key || next.Kind >= Array) {
			line, col = keyLine, keyCol
		}
	}
	return line, col
}

// Child returns the member or item with the name tok, and the position of the name. For an item the position is 0, 0.
func (n *Node) Child(tok string) (*Node, int, int) {
	if n.Kind == Array {
		i, err := strconv.Atoi(tok)
		if err != nil || i < 0 || i >= len(n.Items) {
			return nil, 0, 0
		}
		return n.Items[i], 0, 0
	}
	for i := range n.Members {
		if n.Members[i].Name == tok {
			return n.Members[i].Value, n.Members[i].Line, n.Members[i].Col
		}
	}
	return nil, 0, 0
}

var (
	pointerEscape   = strings.NewReplacer("~", "~0", "/", "~1")
	pointerUnescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// Pointer joins reference tokens to an RFC 6901 JSON pointer.
func Pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(pointerEscape.Replace(t))
	}
	return b.String()
}

// PointerTokens splits a pointer made by [Pointer].
func PointerTokens(p string) []string {
	if p == "" {
		return nil
	}
	parts := strings.Split(p[1:], "/")
	for i := range parts {
		parts[i] = pointerUnescape.Replace(parts[i])
	}
	return parts
}
