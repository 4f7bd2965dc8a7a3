package format

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// writeYAML writes a readable YAML document. If the document has anchors, its members keep their order, because an anchor must come before
// its aliases.
func writeYAML(src []byte, known *order) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("format: the YAML library failed: %v", p)
		}
	}()
	var doc yaml.Node
	if err := yaml.Unmarshal(src, &doc); err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	before := comments(&doc, nil)
	if !anchored(&doc) {
		sortRoot(doc.Content[0], known)
	}
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	out = spaceMembers(b.String())
	var again yaml.Node
	if err := yaml.Unmarshal(out, &again); err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	after := comments(&again, nil)
	slices.Sort(before)
	slices.Sort(after)
	if !slices.Equal(before, after) {
		return nil, ErrComments
	}
	return out, nil
}

// sortRoot orders the members of the document. A comment at the top stays at the top, because it describes the file.
func sortRoot(root *yaml.Node, known *order) {
	if len(root.Content) == 0 {
		return
	}
	top := root.Content[0].HeadComment
	root.Content[0].HeadComment = ""
	sortYAML(root, known.root, known)
	first := root.Content[0]
	first.HeadComment = strings.TrimSuffix(top+"\n\n"+first.HeadComment, "\n\n")
	first.HeadComment = strings.TrimPrefix(first.HeadComment, "\n\n")
}

// sortYAML does the same as sortNode for a YAML tree.
func sortYAML(n *yaml.Node, schema *source.Node, known *order) {
	if schema == nil {
		return
	}
	s := known.shapeOf(schema)
	switch n.Kind {
	case yaml.SequenceNode:
		for _, item := range n.Content {
			sortYAML(item, s.item, known)
		}
	case yaml.MappingNode:
		var pairs [][2]*yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			pairs = append(pairs, [2]*yaml.Node{n.Content[i], n.Content[i+1]})
		}
		slices.SortStableFunc(pairs, func(a, b [2]*yaml.Node) int { return s.compare(a[0].Value, b[0].Value) })
		n.Content = n.Content[:0]
		for _, pair := range pairs {
			sortYAML(pair[1], s.member(pair[0].Value), known)
			n.Content = append(n.Content, pair[0], pair[1])
		}
	}
}

// anchored reports whether a document has an anchor.
func anchored(n *yaml.Node) bool {
	return n.Anchor != "" || slices.ContainsFunc(n.Content, anchored)
}

// comments appends the lines of all comments to list.
func comments(n *yaml.Node, list []string) []string {
	for _, text := range []string{n.HeadComment, n.LineComment, n.FootComment} {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, line)
			}
		}
	}
	for _, c := range n.Content {
		list = comments(c, list)
	}
	return list
}

// spaceMembers puts an empty line between two members of the document if one of them has several lines. The library removes the empty
// lines of the source. Lines of nested values are indented, except items of a list and closing brackets. So any other line without
// indentation begins a member or is a comment above one.
func spaceMembers(text string) []byte {
	var blocks [][]string
	begun := false
	for line := range strings.Lines(text) {
		comment := strings.HasPrefix(line, "#")
		top := line != "\n" && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "]") && !strings.HasPrefix(line, "}")
		if len(blocks) == 0 || top && begun {
			blocks, begun = append(blocks, nil), false
		}
		begun = begun || !comment && line != "\n"
		blocks[len(blocks)-1] = append(blocks[len(blocks)-1], line)
	}
	var b strings.Builder
	long := false
	for i, block := range blocks {
		own, lines := strings.Trim(strings.Join(block, ""), "\n"), 0
		for _, line := range block {
			if line != "\n" && !strings.HasPrefix(line, "#") {
				lines++
			}
		}
		several := lines > 1
		if i > 0 && (several || long) {
			b.WriteString("\n")
		}
		b.WriteString(own + "\n")
		long = several
	}
	return []byte(b.String())
}
