package membership

import "fmt"

// FormatError means that a node does not support the storage format of a partition. The node does not
// take over this partition.
type FormatError struct {
	// Format is the format of the partition. The node supports the formats Oldest to Newest.
	Format, Oldest, Newest uint32
}

// Error returns a text that begins with the reason and names the database fields that do not match.
func (e *FormatError) Error() string {
	reason, advice := "FORMAT_NEWER", "start a newer version here"
	if e.Format < e.Oldest {
		reason, advice = "FORMAT_OLDER", "start a version in between first"
	}
	return fmt.Sprintf("%s: part.format is %d, node.speaks is %d, and %d at least: this node sends calls on, and never takes the store: %s",
		reason, e.Format, e.Newest, e.Oldest, advice)
}

// checkFormat returns an error if this node does not support the storage format of a partition. The format 0
// means that the partition does not exist yet.
func (c *Config) checkFormat(format uint32) error {
	if format == 0 || c.Oldest <= format && format <= c.Self.Speaks {
		return nil
	}
	return &FormatError{Format: format, Oldest: c.Oldest, Newest: c.Self.Speaks}
}

// formatOutdated reports whether all live nodes that are not leaving support a newer format than the
// partition's format.
func (v View) formatOutdated(p Partition) bool {
	for _, m := range v.Nodes {
		if !m.Leaving && m.Speaks <= p.Format {
			return false
		}
	}
	return p.Format > 0 && len(v.Nodes) > 0
}
