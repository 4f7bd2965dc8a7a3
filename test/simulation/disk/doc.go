// Package disk is the disk of a simulated machine: directories with files and with one
// database each, in memory, of which a crash leaves what was synced and, as it happens, some
// of what was not. test/simulation/badger and test/simulation/hostos are its faces towards the
// store; the simulator crashes it, fills it and makes it slow. Invariant: what the
// processes before a crash do afterwards changes nothing, their handles are of an earlier life.
package disk
