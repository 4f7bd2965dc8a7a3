// Package protocol has what both sides of an A2A conversation share: the version and the extensions, the names of
// artifacts and metadata, and the conversions of message parts and usage in both directions.
//
// It owns the form of messages, not their handling: package a2a answers callers, package client calls other agents, and
// neither imports the other.
// Invariant: foreign values are read within limits, or refused with their path.
package protocol
