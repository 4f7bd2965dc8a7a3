package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/mcp"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
)

// checked is the result of checking one pack file.
type checked struct {
	Path        string            `json:"path"`
	OK          bool              `json:"ok"`
	Digest      string            `json:"digest"`
	Diagnostics []pack.Diagnostic `json:"diagnostics"`
	Termination *pack.Termination `json:"termination"`
	// Leases are the parts of the run's budget that the pack's agents get.
	Leases []lease `json:"leases,omitempty"`
	// Error is the reason why the file could not be read.
	Error string `json:"error,omitempty"`
}

func newValidate(p *output.Printer) *cobra.Command {
	opts, explain, ask, servers := pack.Options{}, "", false, &mcpServers{}
	cmd := &cobra.Command{
		Use:   "validate [--strict] [--require-bounded] [--mcp] FILE...",
		Short: "Check PromptPack files and the bounds of their loops",
		Long: `Checks PromptPack files (JSON or YAML; - is standard input) against all rules of the format. For each
entry it prints what bounds its loop, or a cycle without a bound. --explain CODE prints what a code
means and its fix; docs/reference/diagnostics.md has all. The command knows no bindings of
--provider, so it warns of each provider key (PPPAWL-40, PPPAWL-41).

--mcp also asks the MCP servers of --config: a tool SERVER/TOOL that no server has (MCP_NO_SERVER,
MCP_NO_TOOL), or that is not the one that the pack pins (MCP_TOOL_CHANGED), is an error.

Exit codes: 0 no errors; 1 errors were found; 2 a file could not be read, or a server not be reached.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if explain != "" {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, paths []string) error {
			if explain != "" {
				return printExplanation(p, explain)
			}
			if ask {
				if err := servers.load(cmd); err != nil {
					return err
				}
			}
			files, err := validateAll(paths, opts, func(loaded *pack.Pack) ([]pack.Diagnostic, error) {
				if !ask {
					return nil, nil
				}
				return servers.check(cmd.Context(), loaded)
			})
			if err != nil {
				return output.Usage(err)
			}
			if p.JSON {
				err = output.WriteJSON(p.Out, output.Object{{Key: "files", Value: files}})
			} else {
				printChecked(p, files)
			}
			return errors.Join(err, validateExit(files))
		},
	}
	bindStrict(cmd, &opts.Strict)
	bindBounded(cmd, &opts.RequireBounded)
	cmd.Flags().BoolVar(&ask, "mcp", false, "ask the MCP servers of --config whether they have the tools of the pack")
	cmd.Flags().String("config", "", "configuration file with mcp_servers, for --mcp (PAWL_CONFIG)")
	cmd.Flags().StringVar(&explain, "explain", "", "print what a code means, why it comes up and how to fix it, instead of checking a file")
	completeFrom(cmd, "explain", pack.Codes()...)
	return cmd
}

// printExplanation prints the explanation of a diagnostic code.
func printExplanation(p *output.Printer, code string) error {
	e, ok := pack.Explain(code)
	if !ok {
		return output.Usage(fmt.Errorf("explain: %q is no code of a finding; docs/reference/diagnostics.md lists all, for example %s", code, "PP0005-2"))
	}
	if p.JSON {
		return output.WriteJSON(p.Out, e)
	}
	p.Printf("%s (%s)\n", e.Code, e.Severity)
	if e.Rule != "" {
		p.Printf("rule: %s\n", e.Rule)
	}
	p.Printf("why:  %s\nfix:  %s\n", e.Cause, e.Fix)
	if e.Example != "" {
		p.Printf("for example: %s\n", e.Example)
	}
	return nil
}

// validateAll checks pack files. more makes further checks, for which [pack.Load] does not have the data.
func validateAll(paths []string, opts pack.Options, more func(*pack.Pack) ([]pack.Diagnostic, error)) ([]checked, error) {
	files := make([]checked, 0, len(paths))
	for _, path := range paths {
		f := checked{Path: path, Diagnostics: []pack.Diagnostic{}}
		content, err := readPack(path)
		if err != nil {
			f.Error = err.Error()
			files = append(files, f)
			continue
		}
		loaded, found, err := pack.Load(content, opts)
		if err != nil {
			return nil, err
		}
		f.Diagnostics = append(f.Diagnostics, found...)
		if loaded != nil {
			f.OK, f.Digest, f.Termination = true, loaded.Digest, loaded.Analyze()
			if f.Leases, err = leasesOf(loaded); err != nil {
				return nil, err
			}
			errs, err := more(loaded)
			if err != nil {
				return nil, err
			}
			f.OK, f.Diagnostics = len(errs) == 0, append(f.Diagnostics, errs...)
		}
		files = append(files, f)
	}
	return files, nil
}

// readPack reads a file, or standard input if path is "-". It reads at most one byte more than the limit, so that the check can report
// that the file is too large.
func readPack(path string) ([]byte, error) {
	in := os.Stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, int64(pack.DefaultLimits().Bytes)+1))
}

// validateExit returns the error with the exit code for all files: 2 if a file or a server could not be read, else 1
// if a file has errors.
func validateExit(files []checked) error {
	exit := error(nil)
	for _, f := range files {
		unreached := func(d pack.Diagnostic) bool { return d.Code == mcp.CodeUnreachable }
		switch {
		case f.Error != "", slices.ContainsFunc(f.Diagnostics, unreached):
			return &output.Exit{Code: output.ExitUsage, Silent: true}
		case !f.OK:
			exit = output.Fault()
		}
	}
	return exit
}

func printChecked(p *output.Printer, files []checked) {
	for _, f := range files {
		if f.Error != "" {
			p.Warnf("%s: %s", p.Bad("unreadable"), f.Error)
			continue
		}
		for _, d := range f.Diagnostics {
			printDiagnostic(p, f.Path, d)
		}
		if !f.OK {
			p.Printf("%s: %s\n", f.Path, p.Bad("refused"))
			continue
		}
		p.Printf("%s: %s  %s\n", f.Path, p.Good("ok"), f.Digest)
		printTermination(p, "  ", f.Termination)
		printLeases(p, "  ", f.Leases)
	}
}

func printDiagnostic(p *output.Printer, path string, d pack.Diagnostic) {
	severity := p.Warn(string(d.Severity))
	if d.Severity == pack.SeverityError {
		severity = p.Bad(string(d.Severity))
	}
	p.Printf("%s:%d:%d: %s %s: %s\n", path, d.Line, d.Column, severity, d.Code, d.Message)
	if d.Hint != "" {
		p.Printf("    %s\n", p.Dim(d.Hint))
	}
}

func printTermination(p *output.Printer, indent string, t *pack.Termination) {
	if t == nil {
		return
	}
	if t.Bounded {
		p.Printf("%s%s: %s\n", indent, t.Entry, boundedText(p, t.BoundedBy, *t.MaxVisits, t.Exact))
	} else {
		p.Printf("%s%s: %s\n", indent, t.Entry, unboundedText(p, t.Cycle, t.AlsoLimitedBy))
	}
	for i := range t.Agents {
		printTermination(p, indent, &t.Agents[i])
	}
}

// boundedText describes in one line what makes a workflow's loop end: the bounds of its states and edges, or only the
// budget of the whole run.
func boundedText(p *output.Printer, by []string, visits int64, exact bool) string {
	why := "bounded by " + strings.Join(by, " and ")
	if slices.Equal(by, []string{"acyclic"}) {
		why = "bounded: no cycle"
	}
	most := "at most"
	if exact {
		most = "worst case"
	}
	noun := "visits"
	if visits == 1 {
		noun = "visit"
	}
	return fmt.Sprintf("%s, %s %d %s", p.Good(why), most, visits, noun)
}

func unboundedText(p *output.Printer, cycle, limits []string) string {
	return fmt.Sprintf("%s: the cycle %s can repeat; only %s ends it",
		p.Warn("not bounded"), strings.Join(cycle, ", "), strings.Join(limits, ", "))
}
