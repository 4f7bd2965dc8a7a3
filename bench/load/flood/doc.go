// Package flood measures a server under more callers than it takes: how soon the others are
// refused, what becomes of the work that it took, and how soon it is over.
//
// Owns: the phases of such a measurement and what each counts.
// Keeps: a latency counts in the phase in which its call began.
package flood
