// Package export gives runs other forms: RFC-103's events and workspace.
//
// It owns how records become those forms. The commands watch and export call it; it
// reads the contract's messages and knows no engine and no store. Invariant: the same
// records give the same bytes, and a form that another tool reads keeps its names.
package export
