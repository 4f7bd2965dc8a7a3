// Package flood measures a server under more callers than it takes: how soon the others are
// told so, what becomes of the work that it took, and how soon it is over.
//
// Owns: the phases of such a measurement and what each counts. Called by: the bench, which
// brings the clients. May import: latency, gRPC's statuses.
// Keeps: a latency counts in the phase in which its call began.
package flood
