// Package codegen writes the types of a pack for those who program against it: [Generate] makes one
// module of Python or TypeScript with the types of its events, artifacts and variables and of the
// arguments of its tools, so that a misspelt name is a type error.
//
// It owns the mapping of JSON Schema to types, pack owns what is true.
// Invariant: every value that the pack admits has the type that is written for it. What a type
// cannot say is any JSON value, never a type that is too narrow; the one exception is meant: an
// object whose schema lists properties and does not speak of further ones has the listed ones only.
// The output depends on the content of the pack alone.
package codegen
