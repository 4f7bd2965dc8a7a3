package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// historyFlags are the flags of `approvals history`, and what it has read.
type historyFlags struct {
	from, to          string
	decisions, labels []string
	limit             int
	req               *pawlv1.ListDecisionsRequest

	found    []*pawlv1.Decision
	removed  uint64
	nextPage string
}

func newHistory(p *output.Printer, c *client) *cobra.Command {
	f := &historyFlags{req: &pawlv1.ListDecisionsRequest{}}
	cmd := &cobra.Command{
		Use: "history", Short: "List the decisions about held calls, newest first", Args: cobra.NoArgs,
		Long: `Lists the decisions about held calls of all runs but imported ones, newest first: the call and its
digest, the decision, the principal, the time, how long the call waited, and the reason. TIMED_OUT
means that there was no decision in time, EXPIRED that an approved call did not start in time and was
held again. The list comes from the journals of the runs. It lacks deleted runs, and says so: their
decisions are only in the audit log, and that they had none in time is gone. With --run the list is of
this run, also of an imported one. With --from it is fast in a large store.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.req.Namespace = c.Namespace
			if err := f.parse(time.Now()); err != nil {
				return err
			}
			return c.With(func(conn *grpc.ClientConn) error {
				if err := f.read(cmd, pawlv1.NewControlServiceClient(conn)); err != nil {
					return err
				}
				return f.print(p)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.from, "from", "", "only decisions of this time or later: RFC 3339, or a duration back from now, for example 24h")
	fs.StringVar(&f.to, "to", "", "only decisions before this time: RFC 3339, or a duration back from now")
	fs.StringVar(&f.req.Tool, "tool", "", "only decisions about calls of this tool")
	fs.StringVar(&f.req.Principal, "by", "", "only decisions of this principal")
	fs.StringSliceVar(&f.decisions, "decision", nil, "only these decisions, for example DENIED,TIMED_OUT")
	fs.StringVar(&f.req.RunId, "run", "", "only calls of this run")
	fs.StringVar(&f.req.Pack, "pack", "", "only runs of this pack: id, id@version or digest")
	fs.StringArrayVar(&f.labels, "label", nil, "only runs with this label, KEY=VALUE (repeatable; all must match)")
	fs.IntVar(&f.limit, "limit", 100, "largest number of decisions to list; 0 = all")
	fs.StringVar(&f.req.PageToken, "page-token", "", "token of the next page, as printed by the previous one")
	completeFrom(cmd, "decision", enumNames(pawlv1.StepVerdict_name, "StepVerdict")...)
	c.CompleteFlag(cmd, "pack", c.PackWords)
	return cmd
}

// parse sets the fields of the request that come from texts.
func (f *historyFlags) parse(now time.Time) (err error) {
	if f.limit < 0 {
		return output.Usage(fmt.Errorf("--limit %d is negative", f.limit))
	}
	if f.req.From, f.req.To, err = span(f.from, f.to, now); err != nil {
		return err
	}
	for _, name := range f.decisions {
		n, err := enumValue(pawlv1.StepVerdict_value, pawlv1.StepVerdict_name, "StepVerdict", "--decision", name)
		if err != nil {
			return err
		}
		f.req.Verdicts = append(f.req.Verdicts, pawlv1.StepVerdict(n))
	}
	f.req.Labels, err = parseLabels(f.labels)
	return err
}

// read reads pages until there are enough decisions. A page may be empty although more follow.
func (f *historyFlags) read(cmd *cobra.Command, control pawlv1.ControlServiceClient) error {
	for {
		f.req.PageSize = maxPage
		if f.limit > 0 {
			f.req.PageSize = int32(min(maxPage, f.limit-len(f.found)))
		}
		page, err := control.ListDecisions(cmd.Context(), f.req)
		if err != nil {
			return err
		}
		f.found, f.removed = append(f.found, page.GetDecisions()...), f.removed+page.GetRemovedEntries()
		if f.nextPage = page.GetNextPageToken(); f.nextPage == "" || f.limit > 0 && len(f.found) >= f.limit {
			return nil
		}
		f.req.PageToken = f.nextPage
	}
}

func (f *historyFlags) print(p *output.Printer) error {
	if f.removed > 0 {
		p.Warnf("%d journal entries of deleted runs are missing here; decisions among them are in the audit log: pawl audit export DIR --decisions", f.removed)
	}
	if p.JSON {
		list := []any{}
		for _, d := range f.found {
			list = append(list, output.Message(d))
		}
		return output.WriteJSON(p.Out, output.Object{
			{Key: "decisions", Value: list}, {Key: "removed_entries", Value: f.removed}, {Key: "next_page_token", Value: f.nextPage},
		})
	}
	t := output.Table{Headers: []string{"AT", "DECISION", "BY", "TOOL", "RUN", "STEP", "WAITED", "DIGEST", "REASON"}}
	for _, d := range f.found {
		record, made := d.GetRecord(), d.GetRecord().GetStepDecided()
		by, waited := record.GetPrincipal(), "-"
		if by == "" {
			by = "-"
		}
		if d.GetSince() != nil {
			waited = record.GetAt().AsTime().Sub(d.GetSince().AsTime()).Round(time.Second).String()
		}
		t.Add(moment(record.GetAt()), output.Bare("StepVerdict", made.GetVerdict().String()), by, made.GetTool(), d.GetRunId(),
			strconv.Itoa(int(made.GetStep())), waited, shortDigest(made.GetDigest()), made.GetReason())
	}
	p.Table(t)
	if f.nextPage != "" {
		p.Printf("more: --page-token %s\n", f.nextPage)
	}
	return nil
}

// shortDigest returns the beginning of a digest, which is enough to compare it by eye.
func shortDigest(digest string) string {
	mark, sum, _ := strings.Cut(digest, ":")
	if len(sum) > 12 {
		sum = sum[:12]
	}
	if sum == "" {
		return "-"
	}
	return mark + ":" + sum
}
