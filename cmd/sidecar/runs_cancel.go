package main

import (
	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/cli"
)

func newRunsCancel(p *cli.Printer, c *client) *cobra.Command {
	req := &pawlv1.CancelRunRequest{}
	cmd := &cobra.Command{
		Use:   "cancel RUN",
		Short: "End a run CANCELLED, and the runs that it delegated to",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Namespace, req.RunId = c.namespace, args[0]
			if req.RequestId == "" {
				req.RequestId = newID("cancel")
			}
			return c.runs(func(runs pawlv1.RunServiceClient) error {
				got, err := runs.CancelRun(cmd.Context(), req)
				if err != nil {
					return err
				}
				if p.JSON {
					return cli.WriteJSON(p.Out, cli.Message(got))
				}
				p.Printf("%s %s, seq %d%s\n", args[0], p.Status(cli.Bare("RunStatus", got.GetStatus().String())),
					got.GetSeq(), duplicateMark(got.GetDuplicate()))
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&req.Note, "note", "", "words that are kept in the record")
	cmd.Flags().StringVar(&req.RequestId, "id", "", "idempotency id; default a new one")
	return cmd
}
