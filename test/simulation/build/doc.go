// Command build compiles the simulator: the real sources, in which `go build -overlay` exchanges
// three things. The normal build never sees the exchanges.
//
//   - Go's runtime: which goroutine runs next, which ready case a select takes and where the walk
//     through a map begins are functions of one seed (runtime.go).
//   - What is below the store: imports of Badger, os and unix become those of
//     test/simulation/{badger,hostos,hostunix}, a disk in memory that can crash (store.go). Nodes
//     of a cluster listen and dial in test/simulation/pipes (peer.go).
//   - With -mutant, one fault that the simulator must find (mutants.go).
//
// Invariant: every exchange replaces a text that must occur exactly as often as the exchange says.
// If a source has changed, the build fails with the name of the file. It never builds something
// else silently.
package main
