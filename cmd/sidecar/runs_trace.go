package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsTrace(p *output.Printer, c *client) *cobra.Command {
	var kinds, artifacts []string
	var all, watched, diff bool
	cmd := &cobra.Command{
		Use:   "trace RUN",
		Short: "Print the records of a run in order",
		Long: `Prints RFC 0009's trace of a run: one row for each transition, with all artifacts or, with --diff, only
the changed ones. --watch prints each row when it is committed, until the run ends. --all lists every
record instead. With -o json, the command prints the records as one array, or one per line with
--watch.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := kindsOf(kinds)
			if err != nil {
				return err
			}
			if watched && all {
				return output.Usage(errors.New("--watch prints the trace; --all goes with runs watch"))
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				if watched {
					return watchTrace(cmd.Context(), p, runs, &pawlv1.StreamTransitionsRequest{
						Namespace: c.Namespace, RunId: args[0], Kinds: wanted, Follow: true,
					}, artifacts)
				}
				found, err := records(cmd.Context(), runs, c.Namespace, args[0], wanted)
				if err != nil {
					return err
				}
				if p.JSON {
					return writeRecords(p, found)
				}
				if all || len(kinds) > 0 {
					printRecords(p, found)
					return nil
				}
				got, err := runs.GetRun(cmd.Context(), &pawlv1.GetRunRequest{Namespace: c.Namespace, RunId: args[0]})
				if err != nil {
					return err
				}
				printTrace(p, got.GetRun(), found, artifacts, diff)
				return nil
			})
		},
	}
	cmd.Flags().StringSliceVar(&kinds, "kind", nil, "only records of these kinds, for example TRANSITION,ENDED (default: all)")
	cmd.Flags().StringSliceVar(&artifacts, "artifacts", nil, "artifacts to show as columns (default: all)")
	cmd.Flags().BoolVar(&watched, "watch", false, "print each row when it is committed, until the run has ended")
	cmd.Flags().BoolVar(&diff, "diff", false, "show only what each row changed")
	cmd.Flags().BoolVar(&all, "all", false, "list every record instead of the trace")
	completeFrom(cmd, "kind", enumNames(pawlv1.RecordKind_name, "RecordKind")...)
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// writeRecords prints the records as one JSON array, with one record on each line.
func writeRecords(p *output.Printer, records []*pawlv1.Record) error {
	p.Printf("[")
	for i, r := range records {
		line, err := json.Marshal(output.Record(r))
		if err != nil {
			return err
		}
		if i > 0 {
			p.Printf(",")
		}
		p.Printf("\n%s", line)
	}
	p.Printf("\n]\n")
	return nil
}

// printTrace prints the trace of a run as a table in the form of PromptPack RFC 0009, with one row for
// each transition.
func printTrace(p *output.Printer, run *pawlv1.Run, records []*pawlv1.Record, columns []string, diff bool) {
	trace := output.NewTrace(columns, run.GetArtifacts())
	trace.Diff = diff
	for _, r := range records {
		trace.Add(r)
	}
	trace.Print(p)
}

// watchTrace prints a line for each row of the trace as soon as the row is committed. With JSON output it prints each
// record instead.
func watchTrace(ctx context.Context, p *output.Printer, runs pawlv1.RunServiceClient, req *pawlv1.StreamTransitionsRequest, columns []string) error {
	if p.JSON {
		return watch(ctx, runs, req, func(r *pawlv1.Record) error { return printWatched(p, r) })
	}
	trace := output.NewTrace(columns, nil)
	return watch(ctx, runs, req, func(r *pawlv1.Record) error {
		// Only after the first write of an artifact is it known whether its mode is append.
		got, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: req.GetNamespace(), RunId: req.GetRunId()})
		if err != nil {
			return err
		}
		trace.AddArtifacts(got.GetRun().GetArtifacts())
		trace.Add(r)
		trace.Next(p)
		return nil
	})
}

// printRecords prints a line for each record.
func printRecords(p *output.Printer, records []*pawlv1.Record) {
	t := output.Table{Headers: []string{"SEQ", "AT", "PRINCIPAL", "KIND", "WHAT"}}
	for _, r := range records {
		t.Add(recordCells(r)...)
	}
	p.Table(t)
}

// maxWhat bounds the text of a record in a table, in characters.
const maxWhat = 120

func recordCells(r *pawlv1.Record) []string {
	o := output.Record(r)
	kind, _ := o.Get("kind").(string)
	what, err := json.Marshal(o.Get(kind))
	if err != nil {
		what = []byte(err.Error())
	}
	text := cmp.Or(output.ModelText(r), string(what))
	return []string{itoa(r.GetSeq()), moment(r.GetAt()), r.GetPrincipal(), kind, output.Shorten(text, maxWhat)}
}
