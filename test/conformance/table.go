package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// journalRow names the row of what `pawl check` says of all that was stored.
const journalRow = "(journal check)"

// printTable writes one row a scenario and one column a language and mode, then what
// failed, then the counts. It gives the number of failures.
func printTable(w io.Writer, set *settings, columns []*column, took time.Duration) int {
	passed, failed, not := 0, 0, 0
	var faults []string
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "scenario")
	for _, c := range columns {
		fmt.Fprintf(table, "\t%s %s", c.lang.name, c.mode)
	}
	fmt.Fprintln(table)
	row := func(name string, of func(*column) result) {
		fmt.Fprint(table, name)
		for _, c := range columns {
			switch r := of(c); {
			case r.passed:
				passed++
				fmt.Fprint(table, "\t", cmp.Or(r.word, "ok"), seconds(set, r))
			case r.err != nil:
				failed++
				faults = append(faults, fmt.Sprintf("FAIL %s in %s %s: %s", name, c.lang.name, c.mode, indent(r.err)))
				fmt.Fprint(table, "\tFAIL", seconds(set, r))
			default:
				not++
				fmt.Fprint(table, "\t", absent(r))
			}
		}
		fmt.Fprintln(table)
	}
	for _, r := range rowsOf(set) {
		row(r.name, r.resultIn)
	}
	row(journalRow, func(c *column) result { return result{passed: c.journal == nil, err: c.journal} })
	_ = table.Flush()
	for _, fault := range faults {
		fmt.Fprintln(w, fault)
	}
	printLevels(w, set, columns)
	fmt.Fprintf(w, "conformance: %d scenarios and %d answers in %d columns: %d passed, %d failed, %d do not apply, %.1f s\n",
		len(set.scenarios), len(set.cases), len(columns), passed, failed, not, took.Seconds())
	return failed
}

// printLevels writes a line for each driver of -driver and each level: passed, or how many of its
// scenarios failed.
func printLevels(w io.Writer, set *settings, columns []*column) {
	for _, c := range columns {
		if slices.Contains(builtIn, c.lang.name) {
			continue
		}
		for l := coreLevel; l <= c.lang.level; l++ {
			passed, failed := 0, 0
			for _, s := range set.scenarios {
				if r, played := c.results[s.Name]; played && s.level() == l {
					if r.passed {
						passed++
					} else {
						failed++
					}
				}
			}
			if failed == 0 {
				fmt.Fprintf(w, "%s: level %s passed (%d scenarios)\n", c.lang.name, l, passed)
			} else {
				fmt.Fprintf(w, "%s: level %s failed (%d of %d scenarios)\n", c.lang.name, l, failed, passed+failed)
			}
		}
	}
}

// tableRow is a row of the table, and what is in it of each column.
type tableRow struct {
	name     string
	resultIn func(*column) result
}

// rowsOf are the rows of scenarios, of answers and of kills.
func rowsOf(set *settings) []tableRow {
	var all []tableRow
	for _, s := range set.scenarios {
		all = append(all, tableRow{s.Name, func(c *column) result {
			r := c.results[s.Name]
			r.same = c.mode.serves && !s.executesTurns()
			return r
		}})
	}
	var names []string
	for _, c := range set.cases {
		names = append(names, answersRow+c.Name)
	}
	if len(names) > 0 {
		names = append(names, alikeRow)
	}
	for _, name := range names {
		all = append(all, tableRow{name, func(c *column) result {
			r := c.results[name]
			r.same = c.mode.serves // The executors serve runs by name with the workers as well.
			return r
		}})
	}
	if set.killCount > 0 {
		for _, name := range killRows() {
			all = append(all, tableRow{name, func(c *column) result { return c.results[name] }})
		}
	}
	return all
}

// absent is what a cell shows without a result: "=": it is the same as with workers; "-": the
// scenario says why it does not apply.
func absent(r result) string {
	if r.same {
		return "="
	}
	return "-"
}

func seconds(set *settings, r result) string {
	if !set.times {
		return ""
	}
	return fmt.Sprintf(" %.2f", r.took.Seconds())
}

func indent(err error) string { return strings.ReplaceAll(err.Error(), "\n", "\n    ") }
