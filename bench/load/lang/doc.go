// Package lang finds the workers and drivers of other languages that can be measured here.
//
// Owns: where their programs and clients lie in the source tree.
// Keeps: what is not installed is named, and is no fault.
package lang
