package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// runtime makes Go's scheduler a function of a seed. It uses the sources of the local Go and replaces the
// texts below. This repository contains none of these sources.
func (o *overlay) runtime() error {
	root, err := exec.CommandContext(context.Background(), "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	src := filepath.Join(strings.TrimSpace(string(root)), "src")
	o.add(filepath.Join(src, "runtime/sim_seed.go"), seedSource)
	o.add(filepath.Join(src, "internal/sync/sim_yield.go"), yieldSource)
	for path, exchanges := range runtimeExchanges {
		if err := o.patch(filepath.Join(src, path), exchanges...); err != nil {
			return fmt.Errorf("this version of Go is not known to the simulator: %w", err)
		}
	}
	return nil
}

var runtimeExchanges = map[string][]exchange{
	"runtime/proc.go": {
		{old: "batch *[256]guintptr", new: "batch *[1 << 14]guintptr"},
		// No goroutine is interrupted because time has passed. It runs until it waits or yields.
		{old: "const forcePreemptNS = 10 * 1000 * 1000 // 10ms", new: "const forcePreemptNS = 1 << 60"},
		// A goroutine in a system call keeps its processor.
		{old: "func retake(now int64) uint32 {\n", new: "func retake(now int64) uint32 {\n\tif simState != 0 {\n\t\treturn 0\n\t}\n"},
		{old: "\tif next {\n\tretryNext:", new: "\tif gp.bubble != nil && simState != 0 {\n\t\tnext = false\n\t}\n\tif next {\n\tretryNext:"},
		{
			old: "\t\tpp.runq[t%uint32(len(pp.runq))].set(gp)\n\t\tatomic.StoreRel(&pp.runqtail, t+1)",
			new: "\t\tpp.runq[t%uint32(len(pp.runq))].set(gp)\n\t\tsimPlace(pp, h, t, gp)\n\t\tatomic.StoreRel(&pp.runqtail, t+1)",
		},
		{
			old: "\t} else {\n\t\tlock(&sched.lock)\n\t\tglobrunqput(gp)\n\t\tunlock(&sched.lock)\n\t}\n\n\tif mainStarted {\n\t\twakep()\n\t}\n\n\tschedule()",
			new: "\t} else if gp.bubble != nil && simState != 0 {\n\t\trunqput(pp, gp, false)\n\t} else {\n\t\tlock(&sched.lock)\n\t\tglobrunqput(gp)\n\t\tunlock(&sched.lock)\n\t}\n\n\tif mainStarted {\n\t\twakep()\n\t}\n\n\tschedule()",
		},
	},
	"runtime/rand.go": {
		{old: "\tmp := getg().m\n\tc := &mp.chacha8\n", new: "\tif simState != 0 {\n\t\treturn simRand()\n\t}\n\tmp := getg().m\n\tc := &mp.chacha8\n"},
		// The system starts threads at any time, so they draw from another generator.
		{old: "func bootstrapRand() uint64 {\n", new: "func bootstrapRand() uint64 {\n\tif simState != 0 {\n\t\treturn simOther()\n\t}\n"},
		{old: "\tmp.cheaprand = rand()\n", new: "\tmp.cheaprand = simOther()\n"},
	},
	// No garbage is collected while a simulation runs. A simulation that never ends would use all memory, so
	// it is ended.
	"runtime/mgc.go": {{old: "\tcase gcTriggerHeap:\n", new: "\tcase gcTriggerHeap:\n\t\tsimHolds(gcController.heapLive.Load())\n"}},
	// Timers that are due at the same time have a random order.
	"runtime/time.go": {{old: "t.rand = cheaprand()", new: "t.rand = uint32(simRand())"}},
	"runtime/select.go": {
		{old: "\t\tj := cheaprandn(uint32(norder + 1))", new: "\t\tj := uint32(simRand() % uint64(norder+1))"},
	},
	// A goroutine that waits for a lock waits for another goroutine of the simulation, which may sleep.
	"runtime/runtime2.go": {
		{
			old: "\twaitReasonSyncCondWait:          true,\n",
			new: "\twaitReasonSyncCondWait:          true,\n\twaitReasonSyncMutexLock: true,\n\twaitReasonSyncRWMutexLock: true,\n\twaitReasonSyncRWMutexRLock: true,\n",
		},
		// Go moves half of a full queue to the queue of all processors. It looks at that queue each 61st time
		// that it schedules any goroutine, also one outside of the simulation. With this length, no queue is
		// ever full.
		{old: "runq     [256]guintptr", new: "runq     [1 << 14]guintptr"},
	},
	// Two goroutines meet at a lock. Another goroutine may run before the lock is taken and after it is
	// released.
	"internal/sync/mutex.go": {
		{old: "func (m *Mutex) Lock() {\n", new: "func (m *Mutex) Lock() {\n\truntime_simYield()\n"},
		// With real time, a busy machine would hand over a lock in another way.
		{old: "starving = starving || runtime_nanotime()-waitStartTime > starvationThresholdNs", new: "_, _ = waitStartTime, int64(starvationThresholdNs)"},
		{old: "\t\tm.unlockSlow(new)\n\t}\n}\n", new: "\t\tm.unlockSlow(new)\n\t}\n\truntime_simYield()\n}\n"},
	},
	"runtime/chan.go": {
		{old: "func chansend1(c *hchan, elem unsafe.Pointer) {\n", new: "func chansend1(c *hchan, elem unsafe.Pointer) {\n\tsimYield()\n"},
	},
}

const yieldSource = `package sync

import _ "unsafe"

// defined in package runtime

//go:linkname runtime_simYield
func runtime_simYield()
`

const seedSource = `package runtime

import _ "unsafe"

// simState is the state of the one generator that everything draws from; never 0.
var simState uint64 = 0x9e3779b97f4a7c15

// Out of 256, how often a goroutine that becomes runnable is placed anywhere in the queue
// instead of at its end, and how often one that passes a lock lets another one run.
var simShuffle, simGive uint64

// simOver is called once, by a simulation that does not end. nil means that no simulation runs.
var simOver func()

// simLocks is how many locks the simulation has passed.
var simLocks uint64

// simEnded: simOver was called.
var simEnded bool

// A simulation passes at most so many locks, and holds at most so many bytes with what was left by those
// before it: a process needs 650 MB at most.
var simMostLocks uint64

const simMostHeap = 3 << 30

// SimSeed begins a run of the simulator, which calls over when it passes more than so many locks
// or holds too much.
func SimSeed(seed, shuffle, give, most uint64, over func()) {
	simState, simShuffle, simGive = seed*0x9e3779b97f4a7c15+1, shuffle, give
	if simState == 0 {
		simState = 1
	}
	simOver, simLocks, simMostLocks, simEnded = over, 0, most, false
}

// SimLocks is how many locks the simulation has passed.
func SimLocks() uint64 { return simLocks }

// simEnds ends a simulation that does not end by itself.
func simEnds() {
	gp := getg()
	if over := simOver; over != nil && !simEnded && gp.m.curg == gp && gp.m.locks == 0 {
		simEnded = true
		over()
	}
}

// simHolds ends a simulation that holds too much.
func simHolds(heap uint64) {
	if heap > simMostHeap {
		simEnds()
	}
}

// SimState returns the state of the generator. It differs between two simulations after their first
// different draw.
func SimState() uint64 { return simState }

// simElse is the state of the generator for all that is in no bubble.
var simElse uint64 = 1

// simNext draws for the simulation.
//
//go:nosplit
func simNext() uint64 {
	simState += 0x9e3779b97f4a7c15
	if simState == 0 {
		simState = 1
	}
	return simMix(simState)
}

// simOther draws for everything else.
//
//go:nosplit
func simOther() uint64 {
	simElse += 0x9e3779b97f4a7c15
	return simMix(simElse)
}

// simRand draws for the current goroutine.
//
//go:nosplit
func simRand() uint64 {
	if getg().bubble != nil {
		return simNext()
	}
	return simOther()
}

// simMix is the end of splitmix64.
//
//go:nosplit
func simMix(z uint64) uint64 {
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// simPlace exchanges the last goroutine of the queue with a random one of a bubble. A goroutine outside of
// all bubbles keeps its place and is not counted.
func simPlace(pp *p, h, t uint32, gp *g) {
	if gp.bubble == nil || simNext()&255 >= simShuffle {
		return
	}
	n := uint32(len(pp.runq))
	count := uint64(0)
	for i := h; i != t+1; i++ {
		if pp.runq[i%n].ptr().bubble != nil {
			count++
		}
	}
	k := simNext() % count
	for i := h; i != t+1; i++ {
		other := pp.runq[i%n].ptr()
		if other.bubble == nil {
			continue
		}
		if k == 0 {
			pp.runq[i%n].set(gp)
			pp.runq[t%n].set(other)
			return
		}
		k--
	}
}

// simLast is the goroutine that passed a lock last. simPassed is how often it has done so in a row.
var simLast, simPassed uint64

// simMost is how many locks a goroutine may pass before another goroutine runs. Without this limit, a
// goroutine that retries until another one has made progress could retry for ever.
const simMost = 1 << 14

// simYield sometimes lets another goroutine run.
func simYield() {
	gp := getg()
	if gp.bubble == nil || gp.m.curg != gp || gp.m.locks != 0 {
		return
	}
	if simLocks++; simLocks > simMostLocks {
		simEnds()
	}
	if simPassed++; simLast != gp.goid {
		simLast, simPassed = gp.goid, 0
	}
	if simPassed < simMost && (simGive == 0 || simNext()&255 >= simGive) {
		return
	}
	simPassed = 0
	goyield()
}

//go:linkname internal_sync_simYield internal/sync.runtime_simYield
func internal_sync_simYield() { simYield() }
`
