// Package schedules has the command that shows the operator's schedules. cmd/sidecar puts it
// among the others; it keeps nothing between two calls.
package schedules
