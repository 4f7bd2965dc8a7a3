package layout

// Formats of the whole store, see FORMAT.md and docs/dev/adr/0030-format-2.md. A program keeps a store in
// any of them: as long as it is in an older one it writes nothing that the programs of that one do
// not read, or would decide otherwise about.
const (
	// Format is the newest that this program knows.
	Format = 2
	// OldestFormat is the oldest that it keeps a store in; one that is older still is migrated.
	OldestFormat = 2
)
