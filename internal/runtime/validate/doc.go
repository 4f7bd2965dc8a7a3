// Package validate checks requests without their run: the fields, the compact form of JSON, the
// hash that identifies a repeat, the terms for new runs, and page sizes.
//
// Owns: no data. It is pure: it uses no clock, disk or run.
//
// Guarantees: each error names the field, the limit and the allowed values. A hash covers each
// value with its length, so two different requests never hash the same bytes.
package validate
