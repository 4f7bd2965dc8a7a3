package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsPause(p *output.Printer, c *client) *cobra.Command {
	return runCommand(p, c, "pause", "paused", "Start no turn or step of runs until they are resumed",
		func(r *pawlv1.Run) bool { return !r.GetImported() && !isPaused(r) },
		func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (answer, error) {
			return runs.PauseRun(ctx, &pawlv1.PauseRunRequest{Namespace: c.Namespace, RunId: run, Note: note, RequestId: id})
		})
}

func newRunsResume(p *output.Printer, c *client) *cobra.Command {
	return runCommand(p, c, "resume", "resumed", "Resume paused runs", isPaused,
		func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (answer, error) {
			return runs.ResumeRun(ctx, &pawlv1.ResumeRunRequest{Namespace: c.Namespace, RunId: run, Note: note, RequestId: id})
		})
}

func newRunsCancel(p *output.Printer, c *client) *cobra.Command {
	return runCommand(p, c, "cancel", "cancelled", "Cancel runs and the runs that they delegated to",
		func(r *pawlv1.Run) bool { return !r.GetImported() },
		func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (answer, error) {
			return runs.CancelRun(ctx, &pawlv1.CancelRunRequest{Namespace: c.Namespace, RunId: run, Note: note, RequestId: id})
		})
}

// activeStatuses are the statuses of runs that have not ended.
var activeStatuses = []string{"RUNNING", "WAITING"}

func isPaused(r *pawlv1.Run) bool {
	return r.GetWaiting().GetKind() == pawlv1.WaitingKind_WAITING_KIND_PAUSED
}

// runCommand returns a command that calls do for each run that it names or selects. past is the past participle of name. applies reports
// whether the command has an effect on a selected run.
func runCommand(p *output.Printer, c *client, name, past, short string, applies func(*pawlv1.Run) bool, do func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (answer, error)) *cobra.Command {
	note, id := "", ""
	sel := selection{applies: applies}
	cmd := &cobra.Command{
		Use:   name + " RUN... | " + name + " [--pack ...] [--label ...] [--yes]",
		Short: short,
		Long: short + `.

Name runs, or select them by flags. With flags, the command only lists the runs until you give --yes. It
changes the runs one after the other, continues after a refusal, and returns the first refusal. Runs that start
in the meantime are not selected: repeat the command until it lists no run.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := sel.check(cmd, args, "active"); err != nil {
				return err
			}
			if id != "" && len(args) != 1 {
				return output.Usage(errors.New("--id is the id of one call: name one run"))
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				change := func(run string) (answer, error) {
					call := id
					if call == "" {
						call = newID(name)
					}
					return do(cmd.Context(), runs, run, note, call)
				}
				ids := args
				switch {
				case len(args) == 1 && p.JSON:
					got, err := change(args[0])
					if err != nil {
						return err
					}
					return output.WriteJSON(p.Out, output.Message(got))
				case len(args) == 0:
					var err error
					if ids, err = sel.find(cmd, p, runs, c.Namespace, past, activeStatuses); err != nil || !sel.yes {
						return err
					}
				}
				return changeEach(p, ids, past, change, func(run string, got answer) string {
					return fmt.Sprintf("%s %s: %s, seq %d%s", run, past, p.Status(output.Bare("RunStatus", got.GetStatus().String())), got.GetSeq(), duplicateMark(got.GetDuplicate()))
				})
			})
		},
	}
	sel.bind(cmd, name, "active")
	cmd.Flags().StringVar(&note, "note", "", "note, stored in the record")
	cmd.Flags().StringVar(&id, "id", "", "idempotency id of a call for one run; a repeat with the same id has no second effect (default: a new id)")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}
