// Package protocol contains what both sides of an A2A conversation use: the version and the extensions,
// the names of artifacts and metadata, and the conversions of message parts and usage in both
// directions.
//
// Owns: the form of messages. Package a2a answers callers and package client calls other agents.
// Neither of them imports the other.
//
// Guarantees: values from outside are read within limits, or refused with an error that contains their
// path.
package protocol
