// Package packcache compiles each registered pack once for each entry.
//
// Owns: the compiled packs in memory, bounded by the size of their documents, and the digests to
// which references were last resolved.
//
// Guarantees: a digest identifies the content, so a [Program] never becomes out of date. A reference
// can refer to another pack after a registration, so each registration empties the cache of
// references. Programs are immutable and shared by all runs.
package packcache
