package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// newBudgets returns the command that shows the operator's accounts, which limit the cost of many runs
// together.
func newBudgets(p *output.Printer) *cobra.Command {
	c, req := &client{}, &pawlv1.ListBudgetsRequest{}
	cmd := &cobra.Command{
		Use:   "budgets",
		Short: "Show the accounts of the operator: settled, reserved and limit of each",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req.Namespace = c.Namespace
			return c.With(func(conn *grpc.ClientConn) error {
				all, err := accounts(cmd, pawlv1.NewControlServiceClient(conn), req)
				if err != nil {
					return err
				}
				return printAccounts(p, all)
			})
		},
	}
	cmd.Flags().StringVar(&req.NamePrefix, "name", "", "only accounts whose name has this prefix, for example tenant=acme/")
	c.Bind(cmd)
	return cmd
}

// accounts returns the accounts of all pages.
func accounts(cmd *cobra.Command, control pawlv1.ControlServiceClient, req *pawlv1.ListBudgetsRequest) ([]*pawlv1.Account, error) {
	var all []*pawlv1.Account
	for {
		page, err := control.ListBudgets(cmd.Context(), req)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetAccounts()...)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return all, nil
		}
	}
}

func printAccounts(p *output.Printer, all []*pawlv1.Account) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Message(&pawlv1.ListBudgetsResponse{Accounts: all}))
	}
	if len(all) == 0 {
		p.Printf("no accounts: pawl serve --budgets FILE makes them (docs/guides/budgets.md)\n")
		return nil
	}
	for _, a := range all {
		p.Printf("%s\n", a.GetName())
		p.Printf("  cost    %s settled, %s reserved of %s\n", output.Cost(a.GetSettledTokens(), a.GetSettledCostMicroUsd()), output.Cost(a.GetReservedTokens(), a.GetReservedCostMicroUsd()), of(output.Dollars(a.GetMaxCostMicroUsd()), a.GetMaxCostMicroUsd()))
		p.Printf("  tokens  %d settled, %d reserved of %s\n", a.GetSettledTokens(), a.GetReservedTokens(), of(fmt.Sprint(a.GetMaxTokens()), a.GetMaxTokens()))
		if a.GetRefused() > 0 {
			p.Printf("  refused %d since the sidecar began\n", a.GetRefused())
		}
		if end := a.GetWindowEnd(); end != nil {
			p.Printf("  until   %s\n", end.AsTime().Format(time.RFC3339))
		}
	}
	return nil
}

// of returns the text of a limit. This is the text in shown or, if the limit is 0, "no limit".
func of(shown string, limit int64) string {
	if limit == 0 {
		return "no limit"
	}
	return shown
}
