// Package codegen writes the types of a pack for programs that use the pack. [Generate] returns one module of Python or TypeScript. It
// contains the types of the pack's events, artifacts and variables, and of the arguments of its tools, so that a misspelled name is a
// type error.
//
// It owns the mapping of JSON Schema to types. Package pack defines which values are valid. Invariant: every value that the pack accepts
// has the type that is written for it. If a type cannot express a constraint, the type is any JSON value and never a type that is too
// narrow. There is one intended exception: if the schema of an object lists properties and says nothing about other properties, the type
// has only the listed ones. The output depends only on the content of the pack.
package codegen
