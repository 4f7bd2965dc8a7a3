// Command trust runs the tests that prove the promises of promises.md. It prints for each promise
// how many faults were tried and how many of them broke it. `make trust` calls it.
//
// The page is its only table: a row names its tests, so that a promise that is added there is tried
// here. What a row names besides tests (`make injection`, a bench) takes longer than this command
// may; the command names it and does not run it.
//
// A fault is what a test reports as tried (testkit.Tried). Where a test reports nothing, each case
// of its table is a fault; a test without cases is one fault. A violation is a case that fails.
package main
