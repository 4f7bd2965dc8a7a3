// Package diagram draws packs for people and tools: [Of] makes the graph of a pack, [Diagram.Mark]
// puts a run into it, and it renders as Mermaid, DOT, SVG or JSON.
//
// It owns the picture, pack owns what is true.
// Invariant: a drawing depends on the content alone, and the names that a pack holds are only
// text in it.
package diagram
