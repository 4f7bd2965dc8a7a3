// Package steer has the commands by which a person has a word in a run that goes on.
// cmd/sidecar puts them into its groups; they keep nothing between two calls.
package steer
