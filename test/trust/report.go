package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// report prints a line a promise, and says how many are broken.
func report(out io.Writer, all []promise, found results, took time.Duration) (broken int) {
	area, faults, violations, kept := "", 0, 0, 0
	for _, p := range all {
		if p.area != area {
			area = p.area
			fmt.Fprintf(out, "\n%s\n", area)
		}
		f, v, missing := count(p, found)
		faults, violations = faults+f, violations+v
		fmt.Fprintf(out, "  %s … %d faults … %d violations\n", p.text, f, v)
		for _, m := range missing {
			fmt.Fprintf(out, "      not run here: %s\n", m)
		}
		if len(p.rest) > 0 {
			fmt.Fprintf(out, "      more of it: %s\n", strings.Join(p.rest, ", "))
		}
		if v > 0 {
			broken++
		}
		if v == 0 && f > 0 {
			kept++
		}
	}
	fmt.Fprintf(out, "\n%d promises … %d faults … %d violations, %d kept, %d broken, %d not tried, %.0f s\n",
		len(all), faults, violations, kept, broken, len(all)-kept-broken, took.Seconds())
	return broken
}

// count adds up what was tried against one promise, and names what could not be.
func count(p promise, found results) (faults, violations int, missing []string) {
	for _, t := range p.tests {
		got := found.tests[t]
		faults, violations = faults+got.faults, violations+got.violations
		if got.missing != "" {
			missing = append(missing, t.name+": "+got.missing)
		}
	}
	if p.sim {
		faults, violations = faults+found.sim.faults, violations+found.sim.violations
	}
	return faults, violations, missing
}
