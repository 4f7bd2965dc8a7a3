// Package approval is what stands between a call that a person has to approve and the world:
// whether a call is held, what a decision is stamped with, and whether what is about to go out is
// the very call that was approved.
//
// Owns: nothing of a run; it reads what was.
// Keeps: it fails closed. A condition that cannot be evaluated holds the call, and nothing goes out
// whose tool the operator's allowlist does not admit at that moment, or whose digest, computed again from
// what is stored, is not the approved one.
package approval
