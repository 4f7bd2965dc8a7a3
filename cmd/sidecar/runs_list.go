package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/sidecar/internal/command"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsList(p *output.Printer, c *command.Client) *cobra.Command {
	var filter runFilter
	var limit int
	var oldest bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			selected, err := filter.proto()
			if err != nil {
				return err
			}
			req := &pawlv1.ListRunsRequest{Namespace: c.Namespace, Filter: selected}
			if oldest {
				req.Order = pawlv1.RunOrder_RUN_ORDER_OLDEST_FIRST
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				found, err := listRuns(cmd, runs, req, limit)
				if err != nil {
					return err
				}
				return printRuns(p, found)
			})
		},
	}
	filter.bind(cmd)
	c.CompleteFlag(cmd, "pack", c.PackWords)
	cmd.Flags().IntVar(&limit, "limit", 100, "most runs to list; 0 = all")
	cmd.Flags().BoolVar(&filter.unserved, "unserved", false, "only runs whose turn no connected worker serves")
	cmd.Flags().BoolVar(&oldest, "oldest", false, "oldest first")
	return cmd
}

// maxPage is the largest page that the service gives.
const maxPage = 1000

func listRuns(cmd *cobra.Command, runs pawlv1.RunServiceClient, req *pawlv1.ListRunsRequest, limit int) ([]*pawlv1.Run, error) {
	var all []*pawlv1.Run
	for {
		req.PageSize = maxPage
		if limit > 0 {
			req.PageSize = int32(min(maxPage, limit-len(all)))
		}
		page, err := runs.ListRuns(cmd.Context(), req)
		if err != nil {
			return nil, err
		}
		all = append(all, page.GetRuns()...)
		req.PageToken = page.GetNextPageToken()
		if req.PageToken == "" || limit > 0 && len(all) >= limit {
			return all, nil
		}
	}
}

func printRuns(p *output.Printer, runs []*pawlv1.Run) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "runs", Value: output.Messages(runs)}})
	}
	t := output.Table{Headers: []string{"RUN", "PACK", "STATUS", "STATE", "VISITS", "SEQ", "UPDATED", "REASON"}}
	for _, r := range runs {
		t.Add(r.GetRunId(), packName(r.GetPack()), statusName(p, r), r.GetState(),
			itoa(r.GetTotalVisits()), itoa(r.GetSeq()), moment(r.GetUpdatedAt()), cmp.Or(r.GetReason(), output.WaitReason(r)))
	}
	p.Table(t)
	return nil
}
