// Package script reads a file of scripted turns and executes one run with it.
//
// The file (YAML or JSON) has variables, input, an optional entry and a list of turns. Each item of the list
// does one thing: it answers the open turn, emits an event from outside, sends an input, skips time, or
// cancels the run.
//
// The commands run and demo call it. It is a client of the contract: of this project it imports only gen, and
// the bounds of YAML files in pack/source. Invariant: a file is read and checked completely before the run is
// started.
package script
