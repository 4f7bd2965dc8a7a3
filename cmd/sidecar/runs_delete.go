package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// ended are the statuses of runs that have ended.
var ended = []string{"COMPLETED", "BUDGET_EXHAUSTED", "ESCALATED", "FAILED", "CANCELLED"}

// deletion holds the flags of `runs delete`.
type deletion struct {
	filter runFilter
	// age is the shortest time that must have passed since the end of a selected run.
	age time.Duration
	all bool
	yes bool
}

func newRunsDelete(p *output.Printer, c *client) *cobra.Command {
	var d deletion
	cmd := &cobra.Command{
		Use:   "delete RUN... | delete [--status ...] [--label ...] [--ended-before 720h] [--yes]",
		Short: "Delete ended runs permanently",
		Long: `Deletes the named runs, or the runs that the flags select. It refuses a run that is running or waiting
(cancel it first), and a run whose parent has not ended. The store keeps that the run was deleted, when
and by which principal. The id that started the run cannot be used again.

With flags, the command only lists the runs until you give --yes. To keep a copy, first write
it: pawl runs export RUN FILE --format file.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen := d.filter.pack+d.filter.state+d.filter.parent != "" || len(d.filter.statuses)+len(d.filter.labels) > 0 || d.age > 0 || d.all
			if chosen == (len(args) > 0) {
				return output.Usage(errors.New("name runs, or select them by flags (--all for every run that has ended)"))
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				if len(args) > 0 {
					return deleteRuns(cmd.Context(), p, runs, c.Namespace, args)
				}
				return deleteSelected(cmd, p, runs, c.Namespace, &d)
			})
		},
	}
	d.filter.bind(cmd)
	fs := cmd.Flags()
	fs.DurationVar(&d.age, "ended-before", 0, "only runs that ended at least this long ago, for example 720h; 0 = any time")
	fs.BoolVar(&d.all, "all", false, "all ended runs")
	fs.BoolVar(&d.yes, "yes", false, "delete the selected runs instead of listing them")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// deleteSelected deletes the runs that the flags select, or only lists them.
func deleteSelected(cmd *cobra.Command, p *output.Printer, runs pawlv1.RunServiceClient, ns string, d *deletion) error {
	if len(d.filter.statuses) == 0 {
		d.filter.statuses = ended
	}
	selected, err := d.filter.proto()
	if err != nil {
		return err
	}
	found, err := listRuns(cmd, runs, &pawlv1.ListRunsRequest{Namespace: ns, Filter: selected}, 0)
	if err != nil {
		return err
	}
	var chosen []*pawlv1.Run
	for _, r := range found {
		if d.age == 0 || time.Since(r.GetUpdatedAt().AsTime()) >= d.age {
			chosen = append(chosen, r)
		}
	}
	if !d.yes {
		if err := printRuns(p, chosen); err != nil {
			return err
		}
		p.Warnf("%d runs would be deleted; --yes deletes them", len(chosen))
		return nil
	}
	ids := make([]string, 0, len(chosen))
	for _, r := range chosen {
		ids = append(ids, r.GetRunId())
	}
	return deleteRuns(cmd.Context(), p, runs, ns, ids)
}

// deleteRuns deletes runs one after the other and prints each result. It continues after a refusal and returns the first refusal.
func deleteRuns(ctx context.Context, p *output.Printer, runs pawlv1.RunServiceClient, ns string, ids []string) error {
	var first error
	out := []output.Object{}
	for _, id := range ids {
		got, err := runs.DeleteRun(ctx, &pawlv1.DeleteRunRequest{Namespace: ns, RunId: id})
		if err != nil {
			if first == nil {
				first = err
			}
			if len(ids) > 1 {
				p.Warnf("%s: not deleted: %v", id, err)
			}
			continue
		}
		out = append(out, output.Object{{Key: "run", Value: id}, {Key: "deleted", Value: output.Message(got)}})
		if !p.JSON {
			p.Printf("%s deleted, %d records%s\n", id, got.GetRecords(), duplicateMark(got.GetDuplicate()))
		}
	}
	if p.JSON {
		return errors.Join(output.WriteJSON(p.Out, output.Object{{Key: "runs", Value: out}}), first)
	}
	return first
}
