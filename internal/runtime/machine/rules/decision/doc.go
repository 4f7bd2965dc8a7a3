// Package decision says why a decision about a held call is not taken.
//
// Owns: the refusals of decisions, and of answers to calls that wait for one.
// Called by: package rules.
// May import: machine.
// Keeps: what is decided is the call that was looked at, by somebody who may, once.
package decision
