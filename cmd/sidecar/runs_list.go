package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/export"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsList(p *output.Printer, c *client) *cobra.Command {
	var filter runFilter
	var limit int
	var oldest bool
	var sorted string
	var created timeRange
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List runs, newest first",
		Long: `Lists runs, newest first, with the reason of their end or what they wait for. For the first 100
runs that are FAILED or ESCALATED it also reads the last error from their newest records. JSON
has no errors: 'pawl runs show RUN' prints the last error and the last output of a run. The cost
has no value if none was reported. The duration is the time from the start to the end, or until now.
--sort orders the runs that --limit selects.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			selected, err := filter.proto()
			if err != nil {
				return err
			}
			if err := created.set(selected, time.Now()); err != nil {
				return err
			}
			order, ok := runOrders[sorted]
			if sorted != "" && !ok {
				return output.Usage(fmt.Errorf("--sort %q is none of %s", sorted, strings.Join(slices.Sorted(maps.Keys(runOrders)), ", ")))
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
				if order != nil {
					slices.SortStableFunc(found, func(a, b *pawlv1.Run) int { return cmp.Compare(order(b), order(a)) })
				}
				return printRuns(p, found, endErrors(cmd.Context(), p, runs, found))
			})
		},
	}
	filter.bind(cmd)
	c.CompleteFlag(cmd, "pack", c.PackWords)
	cmd.Flags().IntVar(&limit, "limit", 100, "largest number of runs to list; 0 = all")
	cmd.Flags().BoolVar(&filter.unserved, "unserved", false, "only runs whose turn no connected worker serves")
	cmd.Flags().StringSliceVar(&filter.waiting, "waiting", nil, "only runs that wait for one of these now, for example APPROVAL,NO_WORKER")
	completeFrom(cmd, "waiting", enumNames(pawlv1.WaitingKind_name, "WaitingKind")...)
	cmd.Flags().StringVar(&sorted, "sort", "", "largest first: cost, duration or updated (default: in the order of their starts)")
	completeFrom(cmd, "sort", slices.Sorted(maps.Keys(runOrders))...)
	cmd.Flags().BoolVar(&oldest, "oldest", false, "list the oldest first")
	cmd.Flags().StringVar(&created.after, "created-after", "", "only runs started at this time or later: RFC 3339, or a duration back from now, for example 24h")
	cmd.Flags().StringVar(&created.before, "created-before", "", "only runs started before this time: RFC 3339, or a duration back from now")
	return cmd
}

// runOrders are the values of --sort, and by what they order.
var runOrders = map[string]func(*pawlv1.Run) int64{
	"cost":     (*pawlv1.Run).GetCostMicroUsd,
	"duration": func(r *pawlv1.Run) int64 { return int64(duration(r, time.Now())) },
	"updated":  func(r *pawlv1.Run) int64 { return r.GetUpdatedAt().AsTime().UnixNano() },
}

// duration returns how long a run took, or takes until now if it has not ended.
func duration(r *pawlv1.Run, now time.Time) time.Duration {
	if r.GetStatus() > pawlv1.RunStatus_RUN_STATUS_WAITING {
		now = r.GetStatusAt().AsTime()
	}
	return max(0, now.Sub(r.GetCreatedAt().AsTime()))
}

// timeRange holds the flags that bound the start time of runs. An empty field means no bound.
type timeRange struct{ after, before string }

// set sets the bounds in a filter. A duration is subtracted from now.
func (r timeRange) set(filter *pawlv1.RunFilter, now time.Time) (err error) {
	if filter.CreatedAfter, err = timeOf("--created-after", r.after, now); err != nil {
		return err
	}
	if filter.CreatedBefore, err = timeOf("--created-before", r.before, now); err != nil {
		return err
	}
	if r.after != "" && r.before != "" && !filter.GetCreatedAfter().AsTime().Before(filter.GetCreatedBefore().AsTime()) {
		return output.Usage(fmt.Errorf("--created-after %q is not before --created-before %q", r.after, r.before))
	}
	return nil
}

// span parses the flags --from and --to. An empty text means no bound, and its result is nil.
func span(from, to string, now time.Time) (begin, end *timestamppb.Timestamp, err error) {
	if begin, err = timeOf("--from", from, now); err != nil {
		return nil, nil, err
	}
	if end, err = timeOf("--to", to, now); err != nil {
		return nil, nil, err
	}
	if begin != nil && end != nil && !begin.AsTime().Before(end.AsTime()) {
		return nil, nil, output.Usage(fmt.Errorf("--from %q is not before --to %q", from, to))
	}
	return begin, end, nil
}

// timeOf parses a time in RFC 3339, or a duration that is subtracted from now. For an empty text it returns nil.
func timeOf(flag, text string, now time.Time) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return timestamppb.New(at), nil
	}
	back, err := time.ParseDuration(text)
	if err != nil || back < 0 {
		return nil, output.Usage(fmt.Errorf("%s %q is neither a time such as 2026-01-31T09:00:00Z nor a duration such as 24h", flag, text))
	}
	return timestamppb.New(now.Add(-back)), nil
}

// maxPage is the size of the largest page that the service returns.
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

// maxEndErrors bounds the runs whose last error `pawl runs list` reads, because each needs a call.
const maxEndErrors = 100

// endErrors returns the last errors of the listed runs that ended with one, by the id of the run. For JSON it reads none. If
// records cannot be read, it warns and returns what it has, because the list itself is there.
func endErrors(ctx context.Context, p *output.Printer, runs pawlv1.RunServiceClient, listed []*pawlv1.Run) map[string]string {
	out, ended := map[string]string{}, 0
	for _, r := range listed {
		if p.JSON || !export.EndedBadly(r) {
			continue
		}
		if ended++; ended > maxEndErrors {
			continue
		}
		text, err := export.EndError(ctx, runs, r)
		if status.Code(err) == codes.NotFound {
			continue // it was deleted after it was listed
		}
		if err != nil {
			p.Warnf("the last error of %s and of the runs after it cannot be read: %s", r.GetRunId(), status.Convert(err).Message())
			return out
		}
		out[r.GetRunId()] = text
	}
	if ended > maxEndErrors {
		p.Warnf("the last error is shown for %d of %d runs that failed; \"pawl runs show RUN\" shows it for each", maxEndErrors, ended)
	}
	return out
}

// maxListedError bounds an error in the list, in characters.
const maxListedError = 80

// printRuns prints runs as a table. errs are their last errors, by the id of the run.
func printRuns(p *output.Printer, runs []*pawlv1.Run, errs map[string]string) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "runs", Value: output.Messages(runs)}})
	}
	t := output.Table{Headers: []string{"RUN", "PACK", "STATUS", "STATE", "VISITS", "SEQ", "COST", "DURATION", "UPDATED", "REASON", "WAITING", "LAST ERROR"}}
	now := time.Now()
	for _, r := range runs {
		cost := ""
		if r.GetTokens() > 0 || r.GetCostMicroUsd() > 0 {
			cost = output.Cost(r.GetTokens(), r.GetCostMicroUsd())
		}
		t.Add(r.GetRunId(), packName(r.GetPack()), statusName(p, r), r.GetState(),
			itoa(r.GetTotalVisits()), itoa(r.GetSeq()), cost, duration(r, now).Round(time.Second).String(), moment(r.GetUpdatedAt()), r.GetReason(), r.GetWaiting().GetSentence(),
			output.Shorten(errs[r.GetRunId()], maxListedError))
	}
	p.Table(t)
	return nil
}
