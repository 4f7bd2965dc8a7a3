package source

import "fmt"

// Limits bounds the contents of one document. A linear pass over the bytes checks the limits before any
// parser reads the document.
type Limits struct {
	// Bytes bounds the size of the document in bytes. Default 1 MiB.
	Bytes int
	// Depth bounds the nesting of objects and arrays. The root is counted. Default 64.
	Depth int
	// Scalar bounds the length of one string, number or key in the source, in bytes. Default 256 KiB.
	Scalar int
	// Nodes bounds the number of values (objects, arrays and scalars) after YAML aliases are expanded.
	// Default 100 000.
	Nodes int
}

// DefaultLimits returns the limits of a zero [Limits].
func DefaultLimits() Limits {
	return Limits{Bytes: 1 << 20, Depth: 64, Scalar: 256 << 10, Nodes: 100_000}
}

// WithDefaults replaces zero fields by their defaults. It returns an error for negative fields.
func (l Limits) WithDefaults() (Limits, error) {
	def := DefaultLimits()
	for _, f := range []struct {
		name string
		val  *int
		def  int
	}{
		{"Bytes", &l.Bytes, def.Bytes},
		{"Depth", &l.Depth, def.Depth},
		{"Scalar", &l.Scalar, def.Scalar},
		{"Nodes", &l.Nodes, def.Nodes},
	} {
		if *f.val < 0 {
			return l, fmt.Errorf("pack: limit %s is %d, want >= 0 (0 means %d)", f.name, *f.val, f.def)
		}
		if *f.val == 0 {
			*f.val = f.def
		}
	}
	return l, nil
}
