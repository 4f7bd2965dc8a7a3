// Package testkit is what tests share: a clock that stands still, identifiers
// that count up and a store in memory that can crash. Imported by tests only.
package testkit
