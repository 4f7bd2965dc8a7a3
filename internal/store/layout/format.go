package layout

// These are the storage formats of the whole store, see FORMAT.md and docs/dev/adr/0030-format-2.md. A
// program can serve a store in any format from OldestFormat to Format. While the store has an older
// format, the program writes only data that programs of that format can read, and makes the same
// decisions as they do.
const (
	// Format is the newest format that this program knows.
	Format = 2
	// OldestFormat is the oldest format that this program serves. A store in an older format must be
	// migrated.
	OldestFormat = 2
)
