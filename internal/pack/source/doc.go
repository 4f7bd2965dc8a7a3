// Package source reads the text of a document, JSON or YAML, into one tree of values
// that know their place: [Read] gives a [Node] or a [Fault] with line and column.
//
// It owns what a readable document is and knows nothing of packs, which call it; it
// imports the reader of JSON for numbers alone. Invariant: input is foreign, so a linear pass holds it to
// its [Limits] before a parser sees it, aliases are measured before they are
// expanded, and nothing here panics, hangs or takes memory out of proportion.
package source
