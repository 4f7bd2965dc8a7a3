package pg

import "fmt"

// Formats are the storage formats of a partition that a program supports. Package pg knows only their
// numbers. The zero value means all formats.
type Formats struct {
	// Oldest and Newest are the oldest and the newest format in which this program can keep a
	// partition.
	Oldest, Newest uint32
	// Raise means that the takeover of a partition changes its format to the newest one that all
	// running nodes support. Otherwise the format does not change.
	Raise bool
}

// anyFormat is greater than every format number.
const anyFormat = 1 << 30

func (f Formats) withDefaults() Formats {
	if f.Newest == 0 {
		f.Newest = anyFormat
	}
	return f
}

// FormatError means that this program does not support the storage format of a partition. The partition
// is unchanged.
type FormatError struct {
	Schema                string
	Found, Oldest, Newest uint32
}

// Error returns a text with the name of the database field and all numbers.
func (e *FormatError) Error() string {
	advice := "use the program that keeps it in this one, or a newer one"
	if e.Older() {
		advice = "serve it with a program of a version in between first"
	}
	return fmt.Sprintf("part.format of schema %q is %d, this program speaks %d to %d: %s", e.Schema, e.Found, e.Oldest, e.Newest, advice)
}

// Older reports whether the partition's format is older than this program supports. Otherwise it is
// newer.
func (e *FormatError) Older() bool { return e.Found < e.Oldest }
