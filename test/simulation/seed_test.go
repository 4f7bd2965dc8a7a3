//go:build sim

package simulation

import _ "unsafe" // linkname

// seedScheduler begins a simulation: from here on every hand-over between goroutines is a
// function of the seed. Out of 256, shuffle is how often one that can run is placed
// anywhere in the queue, give how often one that passes a lock lets another run. It is
// in the runtime that test/simulation/build makes, and in no other: nothing else links. over is
// called when more than most locks are passed, or more memory is held than any seed needs; it must end the process.
//
//go:linkname seedScheduler runtime.SimSeed
func seedScheduler(seed, shuffle, give, most uint64, over func())

// locks is how many locks this simulation has passed.
//
//go:linkname locks runtime.SimLocks
func locks() uint64

// drawn is the state of the scheduler's generator: two traces part where it does.
//
//go:linkname drawn runtime.SimState
func drawn() uint64

// dropPools empties all pools: what is in them belongs to the simulation before, whose
// channels must not be used in the next one.
func dropPools() {
	poolCleanup()
	poolCleanup()
}

//go:linkname poolCleanup sync.poolCleanup
func poolCleanup()
