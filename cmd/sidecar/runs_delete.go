package main

import (
	"fmt"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// endedStatuses are the statuses of runs that have ended.
var endedStatuses = []string{"COMPLETED", "BUDGET_EXHAUSTED", "ESCALATED", "FAILED", "CANCELLED"}

func newRunsDelete(p *output.Printer, c *client) *cobra.Command {
	var sel selection
	cmd := &cobra.Command{
		Use:   "delete RUN... | delete [--status ...] [--label ...] [--ended-before 720h] [--yes]",
		Short: "Delete ended runs permanently",
		Long: `Deletes the named runs, or the runs that the flags select. It refuses a run that is running or waiting
(cancel it first), and a child run if its parent has not ended. The store keeps the fact of the deletion, its
time and its principal. The id that started the run cannot be used again by the same principal.

With flags, the command only lists the runs until you give --yes. To keep a copy, first write
it: pawl runs export RUN FILE --format file.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sel.check(cmd, args, "ended"); err != nil {
				return err
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				ids := args
				if len(args) == 0 {
					var err error
					if ids, err = sel.find(cmd, p, runs, c.Namespace, "deleted", endedStatuses); err != nil || !sel.yes {
						return err
					}
				}
				return changeEach(p, ids, "deleted", func(id string) (*pawlv1.DeleteRunResponse, error) {
					return runs.DeleteRun(cmd.Context(), &pawlv1.DeleteRunRequest{Namespace: c.Namespace, RunId: id})
				}, func(id string, got *pawlv1.DeleteRunResponse) string {
					return fmt.Sprintf("%s deleted, %d records%s", id, got.GetRecords(), duplicateMark(got.GetDuplicate()))
				})
			})
		},
	}
	sel.bind(cmd, "delete", "ended")
	cmd.Flags().DurationVar(&sel.age, "ended-before", 0, "only runs that ended at least this long ago, for example 720h; 0 = any time")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}
