package layout

// Formats of the whole store, see FORMAT.md and docs/dev/adr/0030-format-2.md. A program can
// serve a store in any of them. While the store is in an older format, the program writes only
// what programs of that format can read and decide about in the same way.
const (
	// Format is the newest that this program knows.
	Format = 2
	// OldestFormat is the oldest that it keeps a store in; one that is older still is migrated.
	OldestFormat = 2
)
