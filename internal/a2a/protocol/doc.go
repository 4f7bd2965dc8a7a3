// Package protocol is what both sides of an A2A conversation say alike: the version and the
// extensions, the names of artifacts and metadata, parts of messages and what a delegated run
// consumed, each in both directions.
//
// It owns the words, not what is done with them: package a2a answers callers, package client calls
// others, and neither imports the other.
// Invariant: what is foreign is read within bounds or refused with its path.
package protocol
