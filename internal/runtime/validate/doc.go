// Package validate is what can be said of a request without its run: the checks of its fields, the
// compact form of its JSON, the hash of what a repeat must have in common, the terms on which runs
// begin and the sizes of pages.
//
// Owns: nothing. It is pure: it knows no clock, disk or run.
// Keeps: what is refused names its field, the limit and what is allowed; a hash covers each value
// framed by its length, so that no two requests share one.
package validate
