package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsDiff(p *output.Printer, c *client) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "diff RUN[:SEQ] [RUN][:SEQ]",
		Short: "Compare two points of a run, or of two runs",
		Long: `Compares two points of one run or of two runs: the path through the states after their common part,
visits, transitions, counts against bounds, artifacts, variables and messages. A point without :SEQ is
the current state of the run. A point of only :SEQ belongs to the first run.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			req := &pawlv1.DiffRunsRequest{Namespace: c.Namespace}
			if req.RunId, req.Seq, err = pointOf(args[0]); err != nil {
				return err
			}
			if req.OtherRunId, req.OtherSeq, err = pointOf(args[1]); err != nil {
				return err
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				got, err := runs.DiffRuns(cmd.Context(), req)
				if err != nil {
					return err
				}
				if p.JSON {
					return output.WriteJSON(p.Out, output.Message(got))
				}
				printDiff(p, got)
				return nil
			})
		},
	}
	c.CompleteArgs(cmd, c.RunWords, c.RunWords)
	return cmd
}

// pointOf parses an argument of the form RUN[:SEQ].
func pointOf(word string) (run string, seq uint64, err error) {
	run, text, given := strings.Cut(word, ":")
	if !given {
		return run, 0, nil
	}
	if seq, err = strconv.ParseUint(text, 10, 64); err != nil || seq == 0 {
		return "", 0, output.Usage(fmt.Errorf("%q is no RUN:SEQ with a seq from 1", word))
	}
	return run, seq, nil
}

func printDiff(p *output.Printer, d *pawlv1.DiffRunsResponse) {
	for _, side := range []struct {
		sign  string
		point *pawlv1.RunPoint
	}{{"-", d.GetBase()}, {"+", d.GetOther()}} {
		at := side.point
		p.Printf("%s %s:%d  %s  %s in %s, %d messages\n", side.sign, at.GetRunId(), at.GetSeq(), packName(at.GetPack()),
			output.StatusText(at.GetStatus(), at.GetReason()), at.GetState(), at.GetMessages())
	}
	p.Printf("%s\n", p.Dim(fmt.Sprintf("path: %d states in common", d.GetCommonPath())))
	printPath(p, "-", d.GetBasePath())
	printPath(p, "+", d.GetOtherPath())
	printCounts(p, "visits", d.GetVisits())
	printCounts(p, "edge", d.GetEdges())
	printCounts(p, "", d.GetBudgets())
	for _, a := range d.GetArtifacts() {
		p.Printf("artifact %s: %s, %d → %d bytes\n", a.GetName(), changeWord(a.GetKind()), a.GetBaseBytes(), a.GetOtherBytes())
		printChanges(p, a.GetJson())
		p.Printf("%s", indent(a.GetText()))
	}
	if len(d.GetVariables()) > 0 {
		p.Printf("variables:\n")
	}
	printChanges(p, d.GetVariables())
}

func printPath(p *output.Printer, sign string, path []*pawlv1.PathStep) {
	for _, step := range path {
		p.Printf("  %s %d %s → %s\n", sign, step.GetSeq(), step.GetEvent(), step.GetState())
	}
}

func printCounts(p *output.Printer, what string, changes []*pawlv1.CountChange) {
	for _, c := range changes {
		p.Printf("%s: %d → %d\n", strings.TrimSpace(what+" "+c.GetName()), c.GetBase(), c.GetOther())
	}
}

func printChanges(p *output.Printer, changes []*pawlv1.ValueChange) {
	for _, c := range changes {
		if c.GetKind() != pawlv1.ChangeKind_CHANGE_KIND_ADDED {
			p.Printf("  - %s %s\n", c.GetPath(), output.Shorten(c.GetBaseJson(), maxWhat))
		}
		if c.GetKind() != pawlv1.ChangeKind_CHANGE_KIND_REMOVED {
			p.Printf("  + %s %s\n", c.GetPath(), output.Shorten(c.GetOtherJson(), maxWhat))
		}
	}
}

func changeWord(kind pawlv1.ChangeKind) string {
	return strings.ToLower(output.Bare("ChangeKind", kind.String()))
}

func indent(text string) string {
	if text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}
