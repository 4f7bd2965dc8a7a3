// Package validate checks requests, mostly their parts that do not depend on the run. It checks fields,
// makes JSON compact, computes the hash that identifies a repeat, and applies the settings for new runs
// and page sizes.
//
// Owns: no data. It is pure: it uses no clock and no disk. The few functions that need the state of a run
// get it as an argument.
//
// Guarantees: each error names the field, the limit and the allowed values. A hash includes the length
// of each value, so two different requests never hash the same bytes.
package validate
