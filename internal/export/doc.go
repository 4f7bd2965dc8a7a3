// Package export converts runs to other formats: RFC-103's events and workspace.
//
// It owns how records become these formats. The commands watch and export call it. It reads the contract's
// messages and uses neither engine nor store. Invariant: the same records give the same bytes, and a format
// that another tool reads keeps its names.
package export
