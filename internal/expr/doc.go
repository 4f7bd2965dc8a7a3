// Package expr compiles and evaluates the expressions (CEL) in packs and in the operator's files.
//
// Owns: the environment of the language, and the bounds of an expression and of its evaluation. Guarantees: an evaluation is pure and
// bounded. It uses no clock and no random source, only the given values, takes at most [MaxCost] steps, and never
// panics. If it has no result it returns an [Error], and the caller decides what follows. If an expression guards a
// tool call, an error means that a person must decide about the call.
package expr
