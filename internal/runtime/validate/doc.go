// Package validate checks the parts of requests that do not depend on the run. It checks the fields,
// makes JSON compact, computes the hash that identifies a repeat, and applies the settings for new runs
// and page sizes.
//
// Owns: no data. It is pure: it uses no clock, disk or run.
//
// Guarantees: each error names the field, the limit and the allowed values. A hash includes the length
// of each value, so two different requests never hash the same bytes.
package validate
