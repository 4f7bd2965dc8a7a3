package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// amounts limit tests that could run without end, so that all of them finish within ten minutes on
// two cores. An environment variable of the same name takes precedence.
var amounts = []string{
	"PAWL_KILLS=20", "PAWL_CUTS=10", "PAWL_DAMAGE=100", "PAWL_LINEAR=5", "PAWL_SOAK=20s", "SEEDS=1000",
	"PAWL_STEERED_RUNS=10000", "PAWL_DECISIONS=200", "PAWL_MUTATIONS=64",
}

// atOnce is how many packages run beside each other.
const atOnce = 2

// promises is the list of promises with the tests that prove them.
//
//go:embed promises.md
var promises string

func main() {
	all, err := parse(promises)
	began := time.Now()
	var found results
	if err == nil {
		found, err = try(all, unset(amounts), os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "trust:", err)
		os.Exit(2)
	}
	if broken := report(os.Stdout, all, found, time.Since(began)); broken > 0 {
		os.Exit(1)
	}
}

// unset returns the assignments whose variable is not set in the environment.
func unset(assignments []string) []string {
	return slices.DeleteFunc(slices.Clone(assignments), func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		_, set := os.LookupEnv(name)
		return set
	})
}

// results are what became of each test, and of the simulator.
type results struct {
	tests map[test]trial
	sim   trial
}

// try runs every test that a promise names once, package by package, then the simulator.
func try(all []promise, env []string, out io.Writer) (results, error) {
	wanted, order, sim := byPackage(all)
	found := results{tests: map[test]trial{}}
	var mu sync.Mutex
	var failed error
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for _, dir := range order {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			var said strings.Builder
			got, err := tests(dir, wanted[dir], env, &said)
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(out, "%s%s: %d tests, %.0f s\n", said.String(), dir, len(wanted[dir]), time.Since(began).Seconds())
			if err != nil {
				failed = errors.Join(failed, err)
			}
			for name, t := range got {
				found.tests[test{dir, name}] = t
			}
		})
	}
	wg.Wait()
	if failed == nil && sim {
		found.sim, failed = simulation(env, out)
	}
	return found, failed
}

// byPackage is which tests to run in which directory, each once; the directory with the most
// tests comes first, as the others can run beside it.
func byPackage(all []promise) (wanted map[string][]string, order []string, sim bool) {
	wanted = map[string][]string{}
	for _, p := range all {
		sim = sim || p.sim
		for _, t := range p.tests {
			if !slices.Contains(wanted[t.dir], t.name) {
				wanted[t.dir] = append(wanted[t.dir], t.name)
			}
		}
	}
	for dir := range wanted {
		order = append(order, dir)
	}
	slices.SortFunc(order, func(a, b string) int {
		if d := len(wanted[b]) - len(wanted[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return wanted, order, sim
}
