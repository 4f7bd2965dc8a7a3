// Package packcache compiles registered packs, once per content and entry.
//
// Owns: the memory of compiled packs, bounded by their documents' size, and what
// references meant when they were last looked up.
// Called by: the way (to decide) and its rooms (to show).
// May import: machine, pack. It sees the store as a [Shelf] of packs and nothing more.
// Keeps: a digest is content, so a [Program] never goes stale; a reference does, and is
// not remembered across a registration. Programs are immutable and shared by all runs.
package packcache
