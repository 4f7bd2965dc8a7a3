package bench

import (
	"github.com/pawl-dev/pawl/internal/bench/stat"

	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteTable prints a report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	fmt.Fprintf(&b, "%-58s %14s %-3s %9s  %-9s %s\n", "figure", "median", "", "spread", "bar", "verdict")
	for _, f := range r.Figures {
		fmt.Fprintf(&b, "%-58s %14s %-3s %9s  %-9s %s\n",
			f.Title, amount(f.Median), f.Unit, spreadText(f.Stat), barText(f.Bar), string(f.Verdict))
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
		b.WriteString("quick    smaller sizes and fewer rounds than the figures in docs/bench.md\n")
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
		counts[stat.Reached], counts[stat.Missed], counts[stat.Inconclusive], counts[stat.NotMeasured])
}

// amount keeps three or four digits that mean something.
func amount(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.Abs(v) >= 1000:
		return grouped(int64(math.Round(v)))
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// grouped writes an integer with thin groups of three digits.
func grouped(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + " " + digits[i:]
	}
	return digits
}

func spreadText(s stat.Stat) string {
	switch len(s.Rounds) {
	case 0:
		return ""
	case 1:
		return "once"
	}
	return "±" + amount(s.Spread)
}

func barText(b *stat.Bar) string {
	switch {
	case b == nil:
		return ""
	case b.AtMost:
		return "<= " + strconv.FormatFloat(b.Limit, 'f', -1, 64)
	default:
		return ">= " + strconv.FormatFloat(b.Limit, 'f', -1, 64)
	}
}
