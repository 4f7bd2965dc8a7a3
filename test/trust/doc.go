// Command trust runs the tests that prove the promises of promises.md. It prints for each promise
// how many faults were tried and how many of them broke it. `make trust` calls it.
//
// The page is the only table: a row names its tests, so a new row is tried without a change here. The command does not
// run the other commands that a row names (`make injection`, a bench), because they take too long. It prints their names.
//
// A test reports its faults by testkit.ReportTried. If it does not, each case of its table is a fault, and a test without cases
// is one fault. A violation is a case that fails.
package main
