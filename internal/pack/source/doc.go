// Package source reads a document, JSON or YAML, into one tree of values with their positions: [Read] returns
// a [Node], or a [Fault] with line and column.
//
// It owns the rules for a readable document and does not depend on packs. It imports the JSON reader only for numbers. Invariant: the
// input is foreign. A linear pass checks its [Limits] before a parser reads it, aliases are measured before they are expanded, and the
// package never panics, hangs or uses memory out of proportion.
package source
