package main

import (
	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsInput(p *output.Printer, c *client) *cobra.Command {
	req := &pawlv1.SendInputRequest{}
	cmd := &cobra.Command{
		Use:   "input RUN TEXT",
		Short: "Send a message to a run or to an agent that it delegated to",
		Long: `Sends a message to a run. The message opens the next turn of the current visit, or waits until the open
turn ends. With --step, it goes to the agent of that delegation, which has asked for input. A repeat
with the same --id gets the first answer.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Namespace, req.RunId, req.Parts = c.Namespace, args[0], []*pawlv1.Part{textPart(args[1])}
			if req.MessageId == "" {
				req.MessageId = newID("input")
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				got, err := runs.SendInput(cmd.Context(), req)
				if err != nil {
					return err
				}
				if p.JSON {
					return output.WriteJSON(p.Out, output.Message(got))
				}
				what := "taken"
				if got.GetQueued() {
					what = "waits for the next turn"
				}
				p.Printf("%s: %s, seq %d%s\n", what, p.Status(output.Bare("RunStatus", got.GetStatus().String())), got.GetSeq(), duplicateMark(got.GetDuplicate()))
				return nil
			})
		},
	}
	fs := cmd.Flags()
	fs.Uint32Var(&req.Step, "step", 0, "step of the delegation that waits for an answer; 0 = the run itself")
	fs.StringVar(&req.MessageId, "id", "", "idempotency id; a repeat with the same id has no second effect (default: a new id)")
	fs.Uint64Var(&req.ExpectedSeq, "expected-seq", 0, "visit_seq that the run must have; 0 = any")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}
