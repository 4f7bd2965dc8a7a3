package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// newRaiseBudget returns the command that raises the budget of a run.
func newRaiseBudget(p *output.Printer, c *client) *cobra.Command {
	var usd float64
	req := &pawlv1.RaiseBudgetRequest{}
	cmd := &cobra.Command{
		Use:   "raise-budget RUN --cost USD --reason WHY",
		Short: "Raise the budget of a run above the limit of its pack",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := limits(req, usd); err != nil {
				return output.Usage(err)
			}
			req.Namespace, req.RunId = c.Namespace, args[0]
			if req.RequestId == "" {
				req.RequestId = newID("raise")
			}
			return c.With(func(conn *grpc.ClientConn) error {
				got, err := pawlv1.NewControlServiceClient(conn).RaiseBudget(cmd.Context(), req)
				if err != nil {
					return err
				}
				return printRaised(p, args[0], got)
			})
		},
	}
	fs := cmd.Flags()
	fs.Float64Var(&usd, "cost", 0, "new limit in US dollars, above the current one; 0 = unchanged")
	fs.Int64Var(&req.MaxTokens, "tokens", 0, "new limit in tokens, above the current one; 0 = unchanged")
	fs.StringVar(&req.Reason, "reason", "", "reason, stored in the record (required)")
	fs.StringVar(&req.RequestId, "id", "", "idempotency id; a repeat with the same id has no second effect (default: a new id)")
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

func limits(req *pawlv1.RaiseBudgetRequest, usd float64) error {
	switch {
	case req.GetReason() == "":
		return errors.New("--reason says why: it is kept in the record")
	case usd < 0 || req.GetMaxTokens() < 0:
		return fmt.Errorf("--cost %v, --tokens %d: a budget is raised to an amount above the limit that holds", usd, req.GetMaxTokens())
	case usd == 0 && req.GetMaxTokens() == 0:
		return errors.New("--cost USD or --tokens N says to what the budget is raised")
	}
	req.MaxCostMicroUsd = machine.MicroUSD(usd)
	return nil
}

func printRaised(p *output.Printer, run string, got *pawlv1.RaiseBudgetResponse) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(got))
	}
	raised := got.GetRecord().GetBudgetRaised()
	for _, one := range []struct {
		name, from, to string
		changed        bool
	}{
		{"max_cost_usd", output.Dollars(raised.GetPreviousMaxCostMicroUsd()), output.Dollars(raised.GetMaxCostMicroUsd()), raised.GetMaxCostMicroUsd() != raised.GetPreviousMaxCostMicroUsd()},
		{"max_tokens", fmt.Sprint(raised.GetPreviousMaxTokens()), fmt.Sprint(raised.GetMaxTokens()), raised.GetMaxTokens() != raised.GetPreviousMaxTokens()},
	} {
		if one.changed {
			p.Printf("%s %s %s -> %s, seq %d\n", run, one.name, one.from, one.to, got.GetSeq())
		}
	}
	return nil
}
