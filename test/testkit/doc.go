// Package testkit holds what tests share: a clock that moves only on command, identifiers that
// count up, and a store in memory that can crash.
//
// Only tests import it. [Clock], [IDs] and [Store] are safe for concurrent use.
package testkit
