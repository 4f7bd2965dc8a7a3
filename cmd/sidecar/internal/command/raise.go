package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// NewRaiseBudget is the command that lets a run spend more.
func NewRaiseBudget(p *output.Printer, c *Client) *cobra.Command {
	var usd float64
	req := &pawlv1.RaiseBudgetRequest{}
	cmd := &cobra.Command{
		Use:   "raise-budget RUN --cost USD --reason WHY",
		Short: "Let a run spend more than its pack says",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := limits(req, usd); err != nil {
				return output.Usage(err)
			}
			req.Namespace, req.RunId = c.Namespace, args[0]
			if req.RequestId == "" {
				req.RequestId = NewID("raise")
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
	fs.Float64Var(&usd, "cost", 0, "US dollars in all, above the limit that holds")
	fs.Int64Var(&req.MaxTokens, "tokens", 0, "tokens in all, above the limit that holds")
	fs.StringVar(&req.Reason, "reason", "", "why, kept in the record; required")
	fs.StringVar(&req.RequestId, "id", "", "idempotency id; default a new one")
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
