//go:build sim

package simulation

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
)

var (
	one   = flag.Uint64("seed", 0, "simulate this seed, print its trace and, if it fails, a shorter one")
	block = flag.Uint64("block", 0, "simulate the seeds of this block")
	steps = flag.Int("steps", 60, "actions of a seed")
	first = flag.Bool("first", false, "end with status 255 at the first violation, and do not shorten")
	sums  = flag.Bool("sums", false, "print the sum of each trace")
	shake = flag.Uint64("shake", 0, "which interleaving of each seed's plan is simulated")
	most  = flag.Uint64("locks", 1<<27, "how many locks a simulation passes at most; a seed that needs more does not end, and nor does the process go on")
	share = flag.Bool("clusters", false, "the seeds of a block are those that have a cluster")
)

// blockSize is the number of seeds that a process simulates. The block is always the same, because
// addresses in memory, and with them the order of a map with pointers, depend on the earlier
// simulations of the process.
const blockSize = 50

func TestMain(m *testing.M) {
	flag.Parse()
	debug.SetGCPercent(-1)
	runtime.MemProfileRate = 0
	http.DefaultTransport = overHTTP{}
	os.Exit(m.Run())
}

// simulate runs a plan in a bubble of its own, with randomness, pools and scheduler as
// they are for this plan in every process.
func simulate(t *testing.T, p plan, keep bool) (out outcome) {
	dropPools()
	collect()
	cryptotest.SetGlobalRandom(t, p.seed)
	synctest.Test(t, func(*testing.T) {
		seedScheduler(p.seed+p.shake<<32, p.knobs.shuffle, p.knobs.give, *most, func() { endless(p) })
		out = run(p, keep)
	})
	seedScheduler(0, 0, 0, 0, nil)
	return out
}

// endless ends the process during a simulation that passes more locks or uses more memory than any seed
// needs. It prints the trace and the state of the goroutines. It takes no lock.
func endless(p plan) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w := current.Load()
	show(p, &outcome{trace: w.trace, sum: w.sum})
	stacks := make([]byte, 4<<20)
	fmt.Printf("%s\n", stacks[:runtime.Stack(stacks, true)])
	fmt.Printf("seed %d: does not end: %d locks passed, %d MiB held, interleaving %d\n", p.seed, locks(), m.HeapAlloc>>20, p.shake)
	if *first {
		os.Exit(255)
	}
	os.Exit(1)
}

// collect runs the garbage collector between two simulations, because none runs during a simulation.
func collect() {
	var m runtime.MemStats
	if runtime.ReadMemStats(&m); m.HeapAlloc > 400<<20 {
		runtime.GC()
	}
}

// warm runs what the first simulation of a process does once and no other.
func warm(t *testing.T) { simulate(t, newPlan(1<<40, *steps), false) }

// TestSim simulates one seed in full, or the seeds of a block.
func TestSim(t *testing.T) {
	warm(t)
	if *one != 0 {
		for seed := (*one-1)/blockSize*blockSize + 1; seed < *one; seed++ {
			simulate(t, newPlan(seed, *steps), false)
		}
		p := newPlan(*one, *steps)
		p.shake = *shake
		replay(t, p)
		return
	}
	var total stats
	for i := range uint64(blockSize) {
		seed := *block*blockSize + i + 1
		if *share {
			seed = (seed-1)*clusterEvery + clusterEvery/2
		}
		p := newPlan(seed, *steps)
		p.shake = *shake
		out := simulate(t, p, true)
		total.add(out.stats)
		if *sums {
			fmt.Printf("%d %x\n", seed, out.sum)
		}
		if out.violation != nil {
			t.Errorf("seed %d: %v", seed, out.violation)
			show(p, &out)
			if *first {
				fmt.Printf("seed %d: %v\n", seed, out.violation)
				os.Exit(255)
			}
		}
	}
	fmt.Printf("%d seeds %d lives %d calls %d loops %d sales %d decided %d commits\n", blockSize, total.lives, total.calls, total.stuck, total.sales, total.decided, total.entries)
}

// again is how many interleavings of a seed's plan are tried for a violation.
const again = 32

// replay prints a simulation, and a shorter one that breaks the same promise.
func replay(t *testing.T, p plan) {
	out := simulate(t, p, true)
	for q := p; out.violation == nil && q.shake < again && !*first; q.shake++ {
		if shaken := simulate(t, q, true); shaken.violation != nil {
			p, out = q, shaken
		}
	}
	if out.violation == nil || *first {
		show(p, &out)
		return
	}
	promise := out.violation.promise
	shorter := shrink(p, promise, func(q plan) *violation { return simulate(t, q, false).violation })
	if short := simulate(t, shorter, true); short.violation != nil {
		p, out = shorter, short
	}
	show(p, &out)
	t.Fatal(out.violation)
}

func show(p plan, out *outcome) {
	fmt.Print(p)
	for _, line := range out.trace {
		fmt.Println(line)
	}
	fmt.Printf("sum %x\n", out.sum)
}
