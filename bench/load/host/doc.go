// Package host owns what a bench asks the machine: what it is, how busy it is, what
// a process, a directory or a binary takes, that a child dies with its parent. Only the bench calls it; it imports nothing
// of ours. Invariant: what the system does not tell is said to be unknown, or is an
// error, never a zero that looks like a measurement.
package host
