// Package limits has the command that shows what the operator's limits count now. cmd/sidecar
// puts it among the others; it keeps nothing between two calls.
package limits
