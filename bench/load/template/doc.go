// Package template is what one transition of the engine writes, to be written again under other
// identities by the yardsticks of the bench.
//
// Owns: where the identity of a transition stands in its keys.
// Keeps: what it makes has as many keys, of the same form and order, with values of the same bytes,
// as what was captured.
package template
