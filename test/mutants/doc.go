// Command mutants takes guards out of the program, one at a time, and runs the tests that should
// notice. `make mutants` calls it.
//
// A guard is an `if`, or a case of a `switch` without a value, whose body ends with a refusal: it
// returns an error, a refusal, a denial, the name of a bound, or false. Its mutant is the same
// program with a condition that never holds. The guards of a statement in SQL, and the walk to the
// parents of a run, are listed by hand (area.go), each with the text that takes its place.
//
// A mutant that its tests do not notice survives. A survivor is a fault of the tests, unless
// survivors.txt lists it with a reason: another guard already gives the same protection, or the
// condition cannot hold. The command exits with 1 when a survivor has no reason, and when a reason
// is out of date.
package main
