// Package ui serves the web page of the sidecar.
//
// `make ui` builds the page from the directory ui. The built files are committed below dist and
// embedded, so that the binary needs no Node.
package ui
