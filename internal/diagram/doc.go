// Package diagram draws packs for people and tools: [Of] makes the graph of a pack,
// [Diagram.Mark] puts a run into it, and it renders as Mermaid, DOT, SVG or JSON.
//
// It owns the picture, pack owns what is true. The edges and the commands call it; it
// may import pack and the machine's graph. Invariant: a drawing depends on the
// content alone, and whatever names a pack holds, they are only text in it.
package diagram
