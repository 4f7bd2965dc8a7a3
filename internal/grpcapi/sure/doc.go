// Package sure lets requests pass that keep the constraints of the contract for certain, without
// reading those.
//
// Owns: what is certain.
// Keeps: it never refuses; whatever it is not sure of is held against the contract itself.
package sure
