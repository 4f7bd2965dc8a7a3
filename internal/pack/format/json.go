package format

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// lineWidth is the maximum length of a list or an object of scalars on one line, in bytes.
const lineWidth = 100

// writeJSON writes a tree as JSON.
func writeJSON(root *source.Node, known *order) []byte {
	sortNode(root, known.root, known)
	var b bytes.Buffer
	writeNested(&b, root, 0)
	b.WriteByte('\n')
	return b.Bytes()
}

// sortNode orders the members of all objects that the format describes.
func sortNode(n, schema *source.Node, known *order) {
	if schema == nil {
		return
	}
	s := known.shapeOf(schema)
	slices.SortStableFunc(n.Members, func(a, b source.Member) int { return s.compare(a.Name, b.Name) })
	for _, m := range n.Members {
		sortNode(m.Value, s.member(m.Name), known)
	}
	for _, item := range n.Items {
		sortNode(item, s.item, known)
	}
}

// writeNested writes a value. The indentation of its first line is already written.
func writeNested(b *bytes.Buffer, n *source.Node, depth int) {
	if line := flat(n); line != "" && (n.Kind < source.Array || len(line)+2*depth <= lineWidth) {
		b.WriteString(line)
		return
	}
	open, end := "{", "}"
	if n.Kind == source.Array {
		open, end = "[", "]"
	}
	b.WriteString(open)
	entry := func(i int, name string, v *source.Node) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n" + strings.Repeat("  ", depth+1))
		if n.Kind == source.Object {
			b.WriteString(literal(name) + ": ")
		}
		writeNested(b, v, depth+1)
	}
	for i, item := range n.Items {
		entry(i, "", item)
	}
	for i, m := range n.Members {
		entry(i, m.Name, m.Value)
	}
	b.WriteString("\n" + strings.Repeat("  ", depth) + end)
}

// flat returns a scalar, or a list or an object of scalars, on one line. It returns "" for other values.
func flat(n *source.Node) string {
	var parts []string
	switch n.Kind {
	case source.Array:
		for _, item := range n.Items {
			if item.Kind >= source.Array {
				return ""
			}
			parts = append(parts, flat(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case source.Object:
		for _, m := range n.Members {
			if m.Value.Kind >= source.Array {
				return ""
			}
			parts = append(parts, literal(m.Name)+": "+flat(m.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	default:
		return literal(n.Plain())
	}
}

// literal returns a scalar as JSON, without escapes that JSON does not need.
func literal(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}
