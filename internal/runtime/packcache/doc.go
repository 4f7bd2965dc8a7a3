// Package packcache compiles registered packs, once for each content and entry.
//
// Owns: the compiled packs in memory, bounded by the size of their documents, and the last digests
// of references.
//
// Guarantees: a digest identifies the content, so a [Program] never becomes stale. A reference
// does, and is not cached across a registration. Programs are immutable and shared by all runs.
package packcache
