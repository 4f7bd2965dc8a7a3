// Package budget has the commands about what runs may spend. cmd/sidecar puts them into its
// groups; they keep nothing between two calls.
package budget
