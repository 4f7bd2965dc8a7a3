package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/pack/compare"
)

func newPacksDiff(p *output.Printer, c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Compare two packs: what changes for new runs and for those that have started",
		Long: `Compares two packs: states, events, bounds, budgets, tools, prompts and all else. For each change it says
what it means for runs that start with NEW, what runs of OLD still need, and which of them cannot be
forked to NEW. OLD and NEW are files (JSON or YAML; - is standard input), or packs that are registered
at the sidecar: id, id@version or digest.

Exit codes: 0 the packs are the same; 1 they differ; 2 a pack could not be read or has errors.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			packs := make([]*pack.Pack, len(args))
			for i, word := range args {
				loaded, err := anyPack(cmd, p, c, word)
				if err != nil {
					return err
				}
				packs[i] = loaded
			}
			report, err := compare.Packs(packs[0], packs[1])
			if err != nil {
				return err
			}
			if p.JSON {
				err = output.WriteJSON(p.Out, report)
			} else {
				printPackDiff(p, report)
			}
			if err == nil && !report.Same {
				err = output.Fault()
			}
			return err
		},
	}
	c.CompleteArgs(cmd, c.PackWords, c.PackWords)
	return cmd
}

// anyPack returns the pack in a file, or the registered pack of that name. If the pack has errors, it prints them.
func anyPack(cmd *cobra.Command, p *output.Printer, c *client, word string) (*pack.Pack, error) {
	var (
		content []byte
		opts    pack.Options
		err     error
	)
	if isRegistered(word) {
		opts.Accepted = true
		err = c.Packs(func(packs pawlv1.PackServiceClient) error {
			got, err := packs.GetPack(cmd.Context(), &pawlv1.GetPackRequest{Namespace: c.Namespace, Pack: word, IncludeContent: true})
			content = got.GetContent()
			return err
		})
	} else {
		content, err = readPack(word)
	}
	if err != nil {
		return nil, output.Usage(err)
	}
	loaded, found, err := pack.Load(content, opts)
	if err != nil {
		return nil, err
	}
	if loaded == nil {
		_ = refusedPack(p, word, found) // its exit code is 1, but here a pack with errors is wrong usage
		return nil, &output.Exit{Code: output.ExitUsage, Silent: true}
	}
	return loaded, nil
}

// isRegistered reports whether a word names a registered pack: there is no file of that name, and the word does not look like a path.
func isRegistered(word string) bool {
	if _, err := os.Stat(word); err == nil || word == "-" || strings.ContainsAny(word, `/\`) {
		return false
	}
	return !slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(word))
}

func printPackDiff(p *output.Printer, r *compare.Report) {
	for _, v := range []struct {
		sign string
		compare.Version
	}{{"-", r.Old}, {"+", r.New}} {
		p.Printf("%s %s  %s\n", v.sign, p.Bold(v.Ref()), v.Digest)
		if !reflect.DeepEqual(r.Old.Termination, r.New.Termination) {
			printTermination(p, "  ", v.Termination)
		}
	}
	for _, line := range r.Runs {
		p.Printf("%s\n", line)
	}
	for i := range r.Changes {
		printPackChange(p, &r.Changes[i])
	}
}

func printPackChange(p *output.Printer, c *compare.Change) {
	sign := map[compare.Kind]string{compare.Added: p.Good("+"), compare.Removed: p.Bad("-"), compare.Changed: p.Warn("~")}[c.Kind]
	line := c.Area + " " + p.Bold(c.Name)
	before, after := output.Shorten(string(c.Old), maxWhat), output.Shorten(string(c.New), maxWhat)
	switch {
	case c.Lines != "": // they are printed below
	case c.Kind == compare.Changed:
		line += fmt.Sprintf(": %s → %s", before, after)
	case !strings.ContainsAny(before+after, "{["):
		line += ": " + before + after
	}
	if c.Bound != "" {
		line += " (" + c.Bound + ")"
	}
	p.Printf("\n%s %s\n", sign, line)
	p.Printf("%s", indent(c.Lines))
	for _, text := range []string{c.NewRuns, c.RunningRuns, c.Forks} {
		if text != "" {
			p.Printf("    %s\n", p.Dim(text))
		}
	}
}
