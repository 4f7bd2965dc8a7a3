// Package same says where two records differ.
//
// Owns: the comparison of what is stored with what a replay makes.
// Called by: package rules.
// May import: machine.
// Keeps: an empty list and none are equal, since storage does not tell them apart.
package same
