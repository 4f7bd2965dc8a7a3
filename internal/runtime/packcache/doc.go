// Package packcache compiles registered packs, once per content and entry.
//
// Owns: the memory of compiled packs, bounded by their documents' size, and what references meant
// when they were last looked up.
// Keeps: a digest is content, so a [Program] never goes stale; a reference does, and is not
// remembered across a registration. Programs are immutable and shared by all runs.
package packcache
