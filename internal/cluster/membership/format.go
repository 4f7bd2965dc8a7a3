package membership

import "fmt"

// FormatError means that a node does not support the format of a partition. The node does not take over
// this partition.
type FormatError struct {
	// Format is the format of the partition. The node supports the formats Oldest to Speaks.
	Format, Oldest, Speaks uint32
}

// Error returns a text that begins with the reason and names both fields.
func (e *FormatError) Error() string {
	reason, advice := "FORMAT_NEWER", "start a newer version here"
	if e.Format < e.Oldest {
		reason, advice = "FORMAT_OLDER", "start a version in between first"
	}
	return fmt.Sprintf("%s: part.format is %d, node.speaks is %d, and %d at least: this node sends calls on, and never takes the store: %s",
		reason, e.Format, e.Speaks, e.Oldest, advice)
}

// keeps returns an error if this node does not support the format of a partition. The format 0 means
// that the partition does not exist yet.
func (c *Config) keeps(format uint32) error {
	if format == 0 || c.Oldest <= format && format <= c.Me.Speaks {
		return nil
	}
	return &FormatError{Format: format, Oldest: c.Oldest, Speaks: c.Me.Speaks}
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
