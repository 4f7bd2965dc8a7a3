// Package ui serves the web page of the sidecar. The page is built from ui/ by
// `make ui`; what it is made of is committed below dist and embedded, so that the
// binary needs no Node.
package ui
