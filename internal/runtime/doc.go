// Package runtime leads runs through their lives: it takes an input, gives it
// its turn in the run's queue, lets the pure machine decide, commits what the
// machine made of it and tells whoever waits.
//
//	Apply: queue -> state -> policy.Decide -> machine.Step -> Store.Commit -> publish
//
// [Engine] is the only way in. It owns no goroutine per run and no timer per
// run: a run that nobody talks to costs nothing but its rows in the store.
// Time and identifiers come from [Clock] and [IDs], durability from [Store].
package runtime
