package main

import (
	"context"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsPause(p *output.Printer, c *client) *cobra.Command {
	return runCommand(p, c, "pause", "Start no turn or step of a run until it is resumed",
		func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (answer, error) {
			return runs.PauseRun(ctx, &pawlv1.PauseRunRequest{Namespace: c.Namespace, RunId: run, Note: note, RequestId: id})
		})
}

func newRunsResume(p *output.Printer, c *client) *cobra.Command {
	return runCommand(p, c, "resume", "Resume a paused run",
		func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (answer, error) {
			return runs.ResumeRun(ctx, &pawlv1.ResumeRunRequest{Namespace: c.Namespace, RunId: run, Note: note, RequestId: id})
		})
}

func newRunsCancel(p *output.Printer, c *client) *cobra.Command {
	return runCommand(p, c, "cancel", "Cancel a run and the runs that it delegated to",
		func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (answer, error) {
			return runs.CancelRun(ctx, &pawlv1.CancelRunRequest{Namespace: c.Namespace, RunId: run, Note: note, RequestId: id})
		})
}

// runCommand returns a command that calls do for one run.
func runCommand(p *output.Printer, c *client, name, short string, do func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (answer, error)) *cobra.Command {
	note, id := "", ""
	cmd := &cobra.Command{
		Use:   name + " RUN",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if id == "" {
				id = newID(name)
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				got, err := do(cmd.Context(), runs, args[0], note, id)
				if err != nil {
					return err
				}
				if p.JSON {
					return output.WriteJSON(p.Out, output.Message(got))
				}
				p.Printf("%s %s, seq %d%s\n", args[0], p.Status(output.Bare("RunStatus", got.GetStatus().String())),
					got.GetSeq(), duplicateMark(got.GetDuplicate()))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "note, stored in the record")
	cmd.Flags().StringVar(&id, "id", "", "idempotency id; a repeat with the same id has no second effect (default: a new id)")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}
