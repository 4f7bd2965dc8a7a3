// Command build compiles the simulator: the real sources with, by `go build -overlay`, three
// things exchanged, none of which the normal build ever sees.
//
//   - Go's runtime: who runs next, which ready case a select takes and what a map begins with
//     are functions of one seed (runtime.go).
//   - What is below the store: imports of Badger, os and unix become those of
//     test/simulation/{badger,hostos,hostunix}, a disk in memory that can crash (store.go); and where
//     nodes of a cluster listen and dial, which is test/simulation/pipes then (peer.go).
//   - With -mutant, one fault that the simulator must find (mutants.go).
//
// Every exchange is of a text that must be there as often as is said: a source that has changed
// fails the build with the name of the file, it never builds something else silently.
package main
