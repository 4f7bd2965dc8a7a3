package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsErase(p *output.Printer, c *client) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "erase RUN... --reason WHY",
		Short: "Erase the values of ended runs permanently",
		Long: `Erases the values of the named runs: artifacts, variables, inputs, messages, arguments and answers of
tools, errors and notes. Ids, labels, statuses, states, events, times, counts and the hash chain remain,
and 'pawl runs verify' still passes.

The run must have ended, and its pack must set x_pawl.erasable. The reason is stored with the run. An
older copy of RUNKEYS can restore the values for anyone with a copy of the rows, so replace those
copies.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return output.Usage(errors.New("say why: --reason"))
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				return eraseRuns(cmd.Context(), p, runs, c.Namespace, reason, args)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, stored with the run (required)")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// eraseRuns erases runs one after the other and prints each result. It continues after a refusal and returns the first refusal.
func eraseRuns(ctx context.Context, p *output.Printer, runs pawlv1.RunServiceClient, ns, reason string, ids []string) error {
	var first error
	out := []output.Object{}
	for _, id := range ids {
		got, err := runs.EraseRun(ctx, &pawlv1.EraseRunRequest{Namespace: ns, RunId: id, Reason: reason})
		if err != nil {
			if first == nil {
				first = err
			}
			if len(ids) > 1 {
				p.Warnf("%s: not erased: %v", id, err)
			}
			continue
		}
		out = append(out, output.Object{{Key: "run", Value: id}, {Key: "erased", Value: output.Message(got)}})
		if !p.JSON {
			p.Printf("%s erased, %d records are left%s\n", id, got.GetRecords(), duplicateMark(got.GetDuplicate()))
		}
	}
	if p.JSON {
		return errors.Join(output.WriteJSON(p.Out, output.Object{{Key: "runs", Value: out}}), first)
	}
	return first
}
