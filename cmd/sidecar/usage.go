package main

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// usageFlags are the flags of `usage`, and what it has read.
type usageFlags struct {
	from, to                 string
	pack, state, model, tool string
	labels                   []string
	csv                      bool
	req                      *pawlv1.QueryUsageRequest

	groups []*pawlv1.UsageGroup
	total  pawlv1.UsageGroup
	// incomplete are the times from which on the usage of a namespace is complete, if a part of it is missing. "" means that no
	// usage is there.
	incomplete []string
}

// newUsage returns the command that shows what runs have consumed.
func newUsage(p *output.Printer) *cobra.Command {
	c, f := &client{}, &usageFlags{req: &pawlv1.QueryUsageRequest{PageSize: maxPage}}
	cmd := &cobra.Command{
		Use: "usage", Short: "Show what runs have consumed: tokens and cost by day, pack, model and more", Args: cobra.NoArgs,
		Long: `Shows the tokens and the cost that runs have settled, by the dimensions of --by. The figures stay
when runs are deleted, and their sums are exactly what the operator's accounts count. A day is one
of UTC. With the dimension namespace the command asks for each namespace that the caller may use.
Labels are those that the operator names with --usage-label.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.parse(cmd, time.Now()); err != nil {
				return err
			}
			return c.With(func(conn *grpc.ClientConn) error {
				if err := f.read(cmd, conn, c.Namespace); err != nil {
					return err
				}
				return f.print(p)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.from, "from", "", "first day: YYYY-MM-DD, or a duration back from now, for example 168h")
	fs.StringVar(&f.to, "to", "", "last day, which is included: YYYY-MM-DD, or a duration back from now")
	fs.StringSliceVar(&f.req.GroupBy, "by", []string{"day"}, "dimensions: day, namespace, pack, state, model, tool, label:KEY")
	fs.StringVar(&f.pack, "pack", "", "only runs of this pack, by its id")
	fs.StringVar(&f.state, "state", "", "only usage in this state")
	fs.StringVar(&f.model, "model", "", "only usage of this model; an empty value is usage without a model")
	fs.StringVar(&f.tool, "tool", "", "only usage of calls of this tool; an empty value is turns and model calls")
	fs.StringArrayVar(&f.labels, "label", nil, "only runs with this label, KEY=VALUE (repeatable; all must match)")
	fs.BoolVar(&f.csv, "csv", false, "print CSV")
	c.Bind(cmd)
	completeFrom(cmd, "by", "day", "namespace", "pack", "state", "model", "tool", "label:")
	return cmd
}

// parse sets the fields of the request that come from texts.
func (f *usageFlags) parse(cmd *cobra.Command, now time.Time) (err error) {
	for _, filter := range []struct {
		flag string
		text *string
		set  **string
	}{{"pack", &f.pack, &f.req.Pack}, {"state", &f.state, &f.req.State}, {"model", &f.model, &f.req.Model}, {"tool", &f.tool, &f.req.Tool}} {
		if cmd.Flags().Changed(filter.flag) {
			*filter.set = filter.text
		}
	}
	if f.req.FromDay, err = dayOf("--from", f.from, now); err != nil {
		return err
	}
	if f.req.ToDay, err = dayOf("--to", f.to, now); err != nil {
		return err
	}
	f.req.Labels, err = parseLabels(f.labels)
	return err
}

// dayOf parses a day, or a duration that is subtracted from now. It returns "" for an empty text.
func dayOf(flag, text string, now time.Time) (string, error) {
	if text == "" {
		return "", nil
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil {
		return at.Format(time.DateOnly), nil
	}
	back, err := time.ParseDuration(text)
	if err != nil || back < 0 {
		return "", output.Usage(fmt.Errorf("%s %q is neither a day such as 2026-01-31 nor a duration such as 24h", flag, text))
	}
	return now.Add(-back).UTC().Format(time.DateOnly), nil
}

// read reads the groups of the namespace, or of all that the caller may use if it is a dimension.
func (f *usageFlags) read(cmd *cobra.Command, conn *grpc.ClientConn, namespace string) error {
	namespaces := []string{namespace}
	if namespace == "" && slices.Contains(f.req.GetGroupBy(), "namespace") {
		caller, err := pawlv1.NewRunServiceClient(conn).GetCaller(cmd.Context(), &pawlv1.GetCallerRequest{})
		if err != nil {
			return err
		}
		namespaces = caller.GetNamespaces()
	}
	for _, namespace := range namespaces {
		f.req.Namespace = namespace
		if err := f.readOne(cmd, pawlv1.NewControlServiceClient(conn)); err != nil {
			return err
		}
	}
	slices.SortStableFunc(f.groups, func(a, b *pawlv1.UsageGroup) int { return slices.Compare(a.GetValues(), b.GetValues()) })
	return nil
}

// readOne reads the groups of one namespace.
func (f *usageFlags) readOne(cmd *cobra.Command, control pawlv1.ControlServiceClient) error {
	for f.req.PageToken = ""; ; {
		page, err := control.QueryUsage(cmd.Context(), f.req)
		if err != nil {
			return err
		}
		f.groups = append(f.groups, page.GetGroups()...)
		if f.req.PageToken = page.GetNextPageToken(); f.req.GetPageToken() != "" {
			continue
		}
		total := page.GetTotal()
		f.total.InputTokens += total.GetInputTokens()
		f.total.OutputTokens += total.GetOutputTokens()
		f.total.CostMicroUsd += total.GetCostMicroUsd()
		f.total.Reports += total.GetReports()
		if !page.GetComplete() {
			since := ""
			if page.GetSince() != nil {
				since = moment(page.GetSince())
			}
			f.incomplete = append(f.incomplete, since)
		}
		return nil
	}
}

func (f *usageFlags) print(p *output.Printer) error {
	for _, since := range f.incomplete {
		if since == "" {
			p.Warnf("usage is missing: an older program wrote the store, or pawl salvage made it, and no usage was reported since then")
		} else {
			p.Warnf("usage before %s is missing: an older program wrote it, or a repair or salvage lost it", since)
		}
	}
	switch {
	case f.csv:
		return f.printCSV(p)
	case p.JSON:
		return f.printJSON(p)
	}
	t := output.Table{}
	for _, name := range f.req.GetGroupBy() {
		t.Headers = append(t.Headers, strings.ToUpper(name))
	}
	t.Headers = append(t.Headers, "INPUT", "OUTPUT", "COST", "REPORTS")
	for _, g := range f.groups {
		t.Add(append(shownValues(g), strconv.FormatInt(g.GetInputTokens(), 10), strconv.FormatInt(g.GetOutputTokens(), 10),
			output.Dollars(g.GetCostMicroUsd()), strconv.FormatInt(g.GetReports(), 10))...)
	}
	p.Table(t)
	p.Printf("total: %d input tokens, %d output tokens, %s\n", f.total.GetInputTokens(), f.total.GetOutputTokens(), output.Dollars(f.total.GetCostMicroUsd()))
	return nil
}

func shownValues(g *pawlv1.UsageGroup) []string {
	shown := slices.Clone(g.GetValues())
	for i, value := range shown {
		if value == "" {
			shown[i] = "-"
		}
	}
	return shown
}

func (f *usageFlags) printJSON(p *output.Printer) error {
	list := []any{}
	for _, g := range f.groups {
		row := output.Object{}
		for i, name := range f.req.GetGroupBy() {
			row = append(row, output.Field{Key: name, Value: g.GetValues()[i]})
		}
		list = append(list, append(row, figures(g)...))
	}
	return output.WriteJSON(p.Out, output.Object{
		{Key: "groups", Value: list}, {Key: "total", Value: figures(&f.total)}, {Key: "complete", Value: len(f.incomplete) == 0},
	})
}

func figures(g *pawlv1.UsageGroup) output.Object {
	return output.Object{
		{Key: "input_tokens", Value: g.GetInputTokens()}, {Key: "output_tokens", Value: g.GetOutputTokens()},
		{Key: "cost_micro_usd", Value: g.GetCostMicroUsd()}, {Key: "reports", Value: g.GetReports()},
	}
}

func (f *usageFlags) printCSV(p *output.Printer) error {
	w := csv.NewWriter(p.Out)
	rows := [][]string{append(slices.Clone(f.req.GetGroupBy()), "input_tokens", "output_tokens", "cost_micro_usd", "reports")}
	for _, g := range f.groups {
		rows = append(rows, append(slices.Clone(g.GetValues()), strconv.FormatInt(g.GetInputTokens(), 10), strconv.FormatInt(g.GetOutputTokens(), 10),
			strconv.FormatInt(g.GetCostMicroUsd(), 10), strconv.FormatInt(g.GetReports(), 10)))
	}
	return w.WriteAll(rows)
}
