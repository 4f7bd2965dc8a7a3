package diagram

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/pawl-dev/pawl/internal/pack/source"
)

// numbered returns a generated identifier for each node, so that no name of a state or agent can break the syntax of
// the output.
func (d *Diagram) numbered() map[string]string {
	ids := make(map[string]string, len(d.Nodes))
	for i, n := range d.Nodes {
		ids[n.Kind+"\x00"+n.ID] = fmt.Sprintf("n%d", i)
	}
	return ids
}

// ends returns the identifiers of an edge's nodes.
func (e *Edge) ends(ids map[string]string) (from, to string) {
	fromKind, toKind := NodeState, NodeState
	if e.Kind == EdgeStart {
		fromKind = NodeAgent
	}
	if e.Kind == EdgeDelegation {
		toKind = NodeAgent
		if ids[fromKind+"\x00"+e.From] == "" {
			fromKind = NodeAgent
		}
	}
	return ids[fromKind+"\x00"+e.From], ids[toKind+"\x00"+e.To]
}

// label returns the text of an edge.
func (e *Edge) label() string {
	switch e.Kind {
	case EdgeRedirect:
		return "on max_visits"
	case EdgeStart:
		return "starts"
	case EdgeDelegation:
		return "delegates"
	}
	text := e.Event
	if e.MaxIterations > 0 {
		text += fmt.Sprintf(" (max %d)", e.MaxIterations)
	}
	if e.TimeoutSec > 0 {
		text += fmt.Sprintf(" (after %d s)", e.TimeoutSec)
	}
	if e.Followed > 0 {
		text += fmt.Sprintf(" ×%d", e.Followed)
	}
	return text
}

// lines returns the texts inside a node.
func (n *Node) lines() []string {
	out := []string{n.ID}
	if n.Prompt != "" && n.Kind == NodeState {
		out = append(out, "prompt: "+n.Prompt)
	}
	if n.MaxVisits > 0 {
		out = append(out, fmt.Sprintf("max_visits: %d", n.MaxVisits))
	}
	if n.Visits > 0 {
		out = append(out, fmt.Sprintf("visits: %d", n.Visits))
	}
	if n.Orchestration != "" && n.Orchestration != "internal" {
		out = append(out, n.Orchestration)
	}
	return out
}

// Mermaid renders a flowchart. Names only appear inside quoted labels, encoded.
func (d *Diagram) Mermaid() string {
	var b strings.Builder
	ids := d.numbered()
	b.WriteString("flowchart TD\n")
	for i := range d.Nodes {
		n := &d.Nodes[i]
		lines := n.lines()
		for j := range lines {
			lines[j] = mermaidText(lines[j])
		}
		left, right := "[", "]"
		switch {
		case n.Kind == NodeAgent:
			left, right = "{{", "}}"
		case n.Terminal:
			left, right = "([", "])"
		}
		fmt.Fprintf(&b, "  n%d%s\"%s\"%s\n", i, left, strings.Join(lines, "<br/>"), right)
		if n.Current {
			fmt.Fprintf(&b, "  style n%d stroke-width:4px\n", i)
		}
		if n.Entry {
			fmt.Fprintf(&b, "  start(( )) --> n%d\n", i)
		}
	}
	for i := range d.Edges {
		e := &d.Edges[i]
		from, to := e.ends(ids)
		arrow := "-->"
		if e.Kind != EdgeEvent {
			arrow = "-.->"
		}
		fmt.Fprintf(&b, "  %s %s|\"%s\"| %s\n", from, arrow, mermaidText(e.label()), to)
	}
	return b.String()
}

// mermaidText encodes all characters except letters, digits and harmless ones as entities. Mermaid decodes them after parsing.
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range source.Clip(s, 200) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" _-.:,()…×", r) {
			b.WriteRune(r)
			continue
		}
		if unicode.IsControl(r) {
			r = ' '
		}
		fmt.Fprintf(&b, "#%d;", r)
	}
	return b.String()
}

// DOT renders a Graphviz digraph. Names only appear inside quoted labels, escaped.
func (d *Diagram) DOT() string {
	var b strings.Builder
	ids := d.numbered()
	fmt.Fprintf(&b, "digraph %s {\n  rankdir=TB;\n  node [shape=box, style=rounded];\n", dotText(d.Pack))
	for i := range d.Nodes {
		n := &d.Nodes[i]
		shape := ""
		switch {
		case n.Kind == NodeAgent:
			shape = ", shape=hexagon"
		case n.Terminal:
			shape = ", peripheries=2"
		}
		if n.Current {
			shape += ", penwidth=3"
		}
		fmt.Fprintf(&b, "  n%d [label=%s%s];\n", i, dotText(n.lines()...), shape)
		if n.Entry {
			fmt.Fprintf(&b, "  start [shape=point];\n  start -> n%d;\n", i)
		}
	}
	for i := range d.Edges {
		e := &d.Edges[i]
		from, to := e.ends(ids)
		style := ""
		if e.Kind != EdgeEvent {
			style = ", style=dashed"
		}
		fmt.Fprintf(&b, "  %s -> %s [label=%s%s];\n", from, to, dotText(e.label()), style)
	}
	b.WriteString("}\n")
	return b.String()
}

// dotText returns lines as one quoted DOT string. It doubles backslashes, so that a name cannot contain an escape of Graphviz.
func dotText(lines ...string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, line := range lines {
		if i > 0 {
			b.WriteString(`\n`)
		}
		for _, r := range source.Clip(line, 200) {
			switch {
			case r == '"' || r == '\\':
				b.WriteByte('\\')
				b.WriteRune(r)
			case unicode.IsControl(r):
				b.WriteByte(' ')
			default:
				b.WriteRune(r)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}
