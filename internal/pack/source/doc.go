// Package source reads a document, JSON or YAML, into a tree of values with their positions. [Read]
// returns a [Node], or a [Fault] with line and column.
//
// Owns: the rules for a readable document. The package does not depend on packs. It uses the JSON
// reader only for numbers.
//
// Guarantees: a document may come from any author. A linear pass checks its [Limits] before a parser
// reads it, and aliases are measured before they are expanded. The package never panics, hangs or uses
// an excessive amount of memory.
package source
