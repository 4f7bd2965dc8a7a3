package main

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/test/docpage"
)

// TestCLIPage: docs/reference/cli.md lists every command with its flags, as the command's help does.
//
// It is not parallel, because it changes the environment.
func TestCLIPage(t *testing.T) {
	t.Setenv("PAWL_ADDR", "192.0.2.1:1")
	withoutSettings(t)
	started := false
	root := newRoot(&output.Printer{Out: io.Discard, Err: io.Discard}, &started)
	page := cliPage{times: map[string]int{}}
	for cmd := range commandsBelow(root) {
		for f := range flagsOf(cmd) {
			page.times[row(f)]++
		}
	}
	page.write("| command | what it does |\n|---|---|\n")
	for cmd := range commandsBelow(root) {
		page.write("| [`%s`](#%s) | %s |\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"), docpage.Cell(cmd.Short))
	}
	page.write("\n## Common flags\n\nThese flags are the same for every command that has them.\n\n")
	page.table(func(text string) bool { return page.times[text] >= common }, slices.Sorted(maps.Keys(page.times)))
	for cmd := range commandsBelow(root) {
		page.command(cmd)
	}
	docpage.Check(t, "../../docs/reference/cli.md", "commands", page.String())
}

// TestExamples: every command has an example, and each line of it is a valid call of the command.
func TestExamples(t *testing.T) {
	unused := maps.Clone(examples)
	for cmd := range commandsBelow(silentRoot()) {
		for line := range strings.SplitSeq(strings.TrimSpace(cmd.Example), "\n") {
			calls := strings.Split(line, " && ")
			if err := validCall(cmd.CommandPath(), calls[len(calls)-1]); err != nil {
				t.Errorf("%s: example %q: %v", cmd.CommandPath(), line, err)
			}
		}
		delete(unused, strings.TrimPrefix(cmd.CommandPath(), "pawl "))
	}
	for name := range unused {
		t.Errorf("examples has %q, which is no command", name)
	}
}

// silentRoot returns the command, without output.
func silentRoot() *cobra.Command {
	started := false
	return newRoot(&output.Printer{Out: io.Discard, Err: io.Discard}, &started)
}

// validCall checks that a line calls the command of a path, with flags and arguments that it accepts. A new
// command parses each line, because a command keeps the flags of earlier lines.
func validCall(path, line string) error {
	_, line, _ = strings.Cut(line, "pawl ") // skips what comes before, as in "TOKEN=$(pawl ..."
	words := regexp.MustCompile(`'[^']*'|(?:[^\s'"]|"[^"]*")+`).FindAllString(line, -1)
	if end := slices.IndexFunc(words, func(w string) bool { return w == ">" }); end >= 0 {
		words = words[:end]
	}
	cmd, rest, err := silentRoot().Find(words)
	if err != nil {
		return err
	}
	if cmd.CommandPath() != path {
		return fmt.Errorf("it calls %s", cmd.CommandPath())
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// withoutSettings unsets the variables PAWL_* for one test: they change the defaults of flags.
func withoutSettings(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "PAWL_") {
			continue
		}
		t.Setenv(name, value) // the value comes back after the test
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}

// common is in how many commands a flag is for the table of common flags.
const common = 5

// cliPage is the generated part of the page.
type cliPage struct {
	strings.Builder
	// times is in how many commands a flag is, by its row.
	times map[string]int
}

func (p *cliPage) write(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// command writes the section of one command: its help, its usage and the flags that are its own.
func (p *cliPage) command(cmd *cobra.Command) {
	text := strings.TrimSpace(cmd.Long)
	if text == "" {
		text = strings.TrimSuffix(cmd.Short, ".") + "."
	}
	p.write("### %s\n\n%s\n\n```\n%s\n```\n\n", cmd.CommandPath(), fenced(text), cmd.UseLine())
	p.write("For example:\n\n```sh\n%s\n```\n\n", strings.TrimSpace(strings.ReplaceAll(cmd.Example, "\n  ", "\n")))
	if path := cmd.CommandPath(); path == "pawl serve" || path == "pawl config check" {
		p.write("Its flags are the [settings](configuration.md) and the [limits](limits.md).\n\n")
		return
	}
	rows, shared := []string{}, []string{}
	for f := range flagsOf(cmd) {
		if p.times[row(f)] >= common {
			shared = append(shared, "`--"+f.Name+"`")
		}
		rows = append(rows, row(f))
	}
	p.table(func(text string) bool { return p.times[text] < common }, rows)
	if len(shared) > 0 {
		p.write("[Common flags](#common-flags): %s.\n\n", strings.Join(shared, ", "))
	}
}

// indented matches lines of a help text that begin with two spaces, and the line breaks before them.
var indented = regexp.MustCompile(`\n+(?:  .*(?:\n|$))+`)

// fenced puts the indented lines of a help text in a block, because Markdown would join them to one paragraph.
func fenced(text string) string {
	return indented.ReplaceAllStringFunc(text, func(lines string) string {
		return "\n\n```\n" + strings.ReplaceAll(strings.TrimSpace(lines), "\n  ", "\n") + "\n```\n"
	})
}

// table writes the rows that are in it.
func (p *cliPage) table(in func(string) bool, rows []string) {
	if rows = slices.DeleteFunc(slices.Clone(rows), func(r string) bool { return !in(r) }); len(rows) > 0 {
		p.write("| flag | default | meaning |\n|---|---|---|\n%s\n", strings.Join(rows, ""))
	}
}

// commandsBelow are the commands below cmd that can be called, in the order of the help. Groups are left
// out, except those that are commands too, which have an example.
func commandsBelow(cmd *cobra.Command) iter.Seq[*cobra.Command] {
	return func(yield func(*cobra.Command) bool) {
		for _, child := range cmd.Commands() {
			if !child.IsAvailableCommand() || child.Name() == "help" || child.Name() == "completion" {
				continue
			}
			if (!child.HasAvailableSubCommands() || child.Example != "") && !yield(child) {
				return
			}
			for below := range commandsBelow(child) {
				if !yield(below) {
					return
				}
			}
		}
	}
}

// flagsOf are the flags of a command: its own, and those of its group. Those of serve are settings.
func flagsOf(cmd *cobra.Command) iter.Seq[*pflag.Flag] {
	return func(yield func(*pflag.Flag) bool) {
		more := cmd.Name() != "serve"
		visit := func(f *pflag.Flag) {
			if more && !f.Hidden && f.Name != "help" && cmd.Root().PersistentFlags().Lookup(f.Name) != f {
				more = yield(f)
			}
		}
		cmd.LocalFlags().VisitAll(visit)
		cmd.InheritedFlags().VisitAll(visit)
	}
}

// row is a flag's line of a table.
func row(f *pflag.Flag) string {
	name, usual := "`--"+f.Name+"`", "none"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	if f.DefValue != "" && f.DefValue != "[]" {
		usual = "`" + f.DefValue + "`"
	}
	_, usage := pflag.UnquoteUsage(f)
	return fmt.Sprintf("| %s | %s | %s |\n", name, usual, docpage.Cell(usage))
}
