// Package packcache compiles each registered pack once for each entry.
//
// Owns: the compiled packs in memory, bounded by the size of their documents, and the last digests of
// references.
//
// Guarantees: a digest identifies the content, so a [Program] never becomes stale. A reference can
// become stale, so a reference is not kept in the cache across a registration. Programs are immutable
// and shared by all runs.
package packcache
