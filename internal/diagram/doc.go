// Package diagram draws packs: [Of] returns the graph of a pack, [Diagram.Mark] adds the progress of a run, and the diagram is rendered
// as Mermaid, DOT, SVG or JSON.
//
// It owns the layout; package pack owns the content. Invariant: a drawing depends only on the content, and
// names from a pack appear only as text.
package diagram
