package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// newLimits returns the command that lists limits.
func newLimits(p *output.Printer) *cobra.Command {
	c := &client{}
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Show the use of the limits of model and tool calls",
		Long: `Lists the limits of the operator's file (serve --limits). For each key it shows the open calls, the
calls and the tokens of the last minute, the limit of each, and which tenants wait. The figures are
over all namespaces. Needs the scope store:read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.With(func(conn *grpc.ClientConn) error {
				got, err := pawlv1.NewControlServiceClient(conn).ListLimits(cmd.Context(), &pawlv1.ListLimitsRequest{})
				if err != nil {
					return err
				}
				return showLimits(p, got.GetLimits())
			})
		},
	}
	c.Bind(cmd)
	return cmd
}

func showLimits(p *output.Printer, all []*pawlv1.Limit) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "limits", Value: output.Messages(all)}})
	}
	t := output.Table{Headers: []string{"LIMIT", "KEY", "OPEN", "MINUTE", "TOKENS", "WAIT", "TENANTS", "HELD"}}
	for _, l := range all {
		for _, u := range l.GetUses() {
			waiting, tenants := queue(u)
			t.Add(l.GetId(), u.GetKey(), limitText(u.GetOpen(), l.GetConcurrent()), limitText(u.GetStarted(), l.GetPerMinute()), limitText(u.GetTokens(), l.GetTokensPerMinute()),
				fmt.Sprint(waiting), tenants, held(u))
		}
		if len(l.GetUses()) == 0 {
			t.Add(l.GetId(), "", limitText(0, l.GetConcurrent()), limitText(0, l.GetPerMinute()), limitText(0, l.GetTokensPerMinute()), "0", "", "")
		}
	}
	p.Table(t)
	return nil
}

// limitText returns how much of a limit is used, as text. It returns "" if there is no limit.
func limitText(n, most int64) string {
	if most == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", n, most)
}

// queue returns the number of calls that wait for a rate limit, and a text with the number for each tenant.
func queue(u *pawlv1.LimitUse) (n int64, tenants string) {
	var words []string
	for _, q := range u.GetWaiting() {
		n += q.GetCalls()
		if q.GetTenant() != "" {
			words = append(words, fmt.Sprintf("%s %d", q.GetTenant(), q.GetCalls()))
		}
	}
	return n, strings.Join(words, ", ")
}

func held(u *pawlv1.LimitUse) string {
	if u.GetHeld() == nil {
		return ""
	}
	return u.GetHeld().AsDuration().Round(time.Second).String()
}
