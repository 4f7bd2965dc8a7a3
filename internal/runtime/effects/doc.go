// Package effects knows what calls of tools do outside: which of them would do the same thing once
// more.
//
// Owns: business keys (x_pawl.tools.dedupe), and what a second request gets; what tools are sent
// that say whether another one's call happened, or undo it.
// Keeps: what is read here is stamped into the input, and the input decided over again, so that a
// replay finds the same; the store has the last word, in the commit.
package effects
