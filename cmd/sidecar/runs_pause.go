package main

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/command"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsPause(p *output.Printer, c *command.Client) *cobra.Command {
	return runCommand(p, c, "pause", "Hand out nothing of a run until it is resumed",
		func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (moved, error) {
			return runs.PauseRun(ctx, &pawlv1.PauseRunRequest{Namespace: c.Namespace, RunId: run, Note: note, RequestId: id})
		})
}

func newRunsResume(p *output.Printer, c *command.Client) *cobra.Command {
	return runCommand(p, c, "resume", "Go on with a run that was paused",
		func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (moved, error) {
			return runs.ResumeRun(ctx, &pawlv1.ResumeRunRequest{Namespace: c.Namespace, RunId: run, Note: note, RequestId: id})
		})
}

func newRunsCancel(p *output.Printer, c *command.Client) *cobra.Command {
	return runCommand(p, c, "cancel", "End a run CANCELLED, and the runs that it delegated to",
		func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (moved, error) {
			return runs.CancelRun(ctx, &pawlv1.CancelRunRequest{Namespace: c.Namespace, RunId: run, Note: note, RequestId: id})
		})
}

// moved is what the calls that pause, resume and cancel answer.
type moved interface {
	proto.Message
	GetStatus() pawlv1.RunStatus
	GetSeq() uint64
	GetDuplicate() bool
}

// runCommand makes a command that does one thing to one run.
func runCommand(p *output.Printer, c *command.Client, name, short string, do func(ctx context.Context, runs pawlv1.RunServiceClient, run, note, id string) (moved, error)) *cobra.Command {
	note, id := "", ""
	cmd := &cobra.Command{
		Use:   name + " RUN",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if id == "" {
				id = command.NewID(name)
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
	cmd.Flags().StringVar(&note, "note", "", "words that are kept in the record")
	cmd.Flags().StringVar(&id, "id", "", "idempotency id; default a new one")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}
