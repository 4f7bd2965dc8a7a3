// Package sure is a fast path for requests that certainly satisfy the constraints of the
// contract, without evaluating those.
//
// Owns: the conditions of certainty. Keeps: it never refuses; a request without certainty is
// validated against the contract itself.
package sure
