// Package expr compiles and evaluates the expressions (CEL) by which packs and the operator's files
// decide.
//
// Owns: the environment of the language, the bounds of an expression and of its evaluation.
// Keeps: an evaluation is pure and bounded. It knows no clock, no random source and nothing but the
// values that it is given, takes at most [MaxCost] steps, and never panics: what it cannot say is
// an [Error], and the caller decides what follows from that. A decision that guards something
// takes it as "hold".
package expr
