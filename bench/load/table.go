package load

import (
	"github.com/pawl-dev/pawl/bench/load/stat"

	"fmt"
	"io"
	"strings"
)

// WriteTable prints a report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	fmt.Fprintf(&b, "%-58s %14s %-3s %9s  %-9s %s\n", "figure", "median", "", "spread", "bar", "verdict")
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "%-58s %14s %-3s %9s  %-9s %s\n",
			f.Title, stat.Amount(f.Median), f.Unit, f.SpreadText(), f.Bar.Text(), string(f.Verdict))
	}
	for _, fault := range r.Faults {
		fmt.Fprintf(&b, "not measured: %s\n", fault)
	}
	for _, missing := range r.Missing {
		fmt.Fprintf(&b, "not installed: %s\n", missing)
	}
	fmt.Fprintf(&b, "%s in %.0f s\n", r.summary(), r.Elapsed.Seconds())
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writeHead(b *strings.Builder) {
	m := r.Machine
	fmt.Fprintf(b, "machine  %s, %d cores, %.1f GB, %s, %s, data on %s\n", m.CPU, m.Cores, m.MemoryGB, m.OS, m.Go, m.FileSystem)
	fmt.Fprintf(b, "load     %s\n", m.Load)
	fmt.Fprintf(b, "sync     %s\n", r.Sync)
	fmt.Fprintf(b, "sizes    %s\n", r.Sizes)
	if r.Quick {
		b.WriteString("quick    smaller sizes and fewer rounds than the figures in docs/dev/benchmarks.md\n")
	}
	b.WriteByte('\n')
}

// summary counts the verdicts.
func (r *Report) summary() string {
	counts := map[stat.Verdict]int{}
	for _, f := range r.Figures {
		if f.Bar != nil {
			counts[f.Verdict]++
		}
	}
	return fmt.Sprintf("%d bars reached, %d missed, %d inconclusive, %d not measured",
		counts[stat.Met], counts[stat.Missed], counts[stat.Inconclusive], counts[stat.NotMeasured])
}
