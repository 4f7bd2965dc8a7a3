// Package partitions has the command that shows who of several sidecars has which part of their
// store. cmd/sidecar puts it among the others; it keeps nothing between two calls.
package partitions
