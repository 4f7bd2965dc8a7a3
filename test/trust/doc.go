// Command trust runs what proves the promises of promises.md, and prints for each of
// them how many faults were tried and how many of them broke it. `make trust` calls it.
//
// The page is its only table: a row names its tests, so a promise that is added there is
// tried here. What a row names beside tests (`make injection`, a bench) takes longer than
// this may; it is named, not run.
//
// A fault is what a test says that it tried (testkit.Tried), or, where it says nothing, a case
// of its table; a test without cases is one. A violation is a case that fails.
package main
