// Package shape says whether what an input brings is well formed, and how large it is.
//
// Owns: the refusals of values that no state would take.
// Called by: the rules, before they decide.
// May import: machine, facts.
// Keeps: a refusal names the field, the limit and what is allowed.
package shape
