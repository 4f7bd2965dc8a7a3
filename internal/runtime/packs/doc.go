// Package packs is the room of packs: validating, registering, reading and listing.
//
// Owns: what it takes for a document to be registered, and nothing of those that are.
// Keeps: a digest names the same bytes for ever; a name that is taken moves only when it is asked
// to; a registration whose outcome is unknown ends the process like any commit.
package packs
