package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// These constants bound one call of [Service.Usage]: the number of rollups that it reads, and of groups that it makes.
const (
	maxUsageRows   = 1_000_000
	maxUsageGroups = 50_000
)

// groupSeparator separates the values of a group in a text. No value has it. positionMark begins a position, so that the
// position of a group without values is not "".
const (
	groupSeparator = "\x00"
	positionMark   = "="
)

// labelDimension is the beginning of a dimension that is a label. The key of the label follows it.
const labelDimension = "label:"

// usageDimensions are the dimensions by which usage can be grouped, besides labels.
var usageDimensions = map[string]func(namespace string, r *machine.UsageRow) string{
	"day":       func(_ string, r *machine.UsageRow) string { return dayName(r.Day) },
	"namespace": func(namespace string, _ *machine.UsageRow) string { return namespace },
	"pack":      func(_ string, r *machine.UsageRow) string { return r.Pack },
	"state":     func(_ string, r *machine.UsageRow) string { return r.State },
	"model":     func(_ string, r *machine.UsageRow) string { return r.Model },
	"tool":      func(_ string, r *machine.UsageRow) string { return r.Tool },
}

// UsageRequest is the argument of [Service.Usage].
type UsageRequest struct {
	runtime.Call
	// From and To are the first and the last day, as YYYY-MM-DD in UTC. "" means no bound.
	From, To string
	// By are the dimensions of the groups: day, namespace, pack, state, model, tool or label:KEY. None means one group.
	By []string
	// Pack, State, Model and Tool select usage. nil means any value.
	Pack, State, Model, Tool *string
	// Labels are labels that the runs must have.
	Labels []machine.Label
	// Position is the Next of the page before. "" means the first page.
	Position string
	// PageSize is the maximum number of groups in a page, at most 1 000. 0 means 100.
	PageSize int
}

// UsageGroup is the usage with the same values of the requested dimensions, in their order.
type UsageGroup struct {
	Values []string
	machine.UsageSum
}

// UsagePage is one page of [Service.Usage].
type UsagePage struct {
	// Groups are ordered by their values.
	Groups []UsageGroup
	// Next is the position of the next page. It is "" if there is none.
	Next string
	// Total is the sum of all groups, not only of those of the page.
	Total machine.UsageSum
	// Since says from when on the store has all usage.
	Since machine.UsageSince
}

// Usage returns what the runs of a namespace have settled, in groups. It reads the rollups of the store, which stay when runs
// are deleted. Each page reads all selected rollups, at most 1 000 000.
func (r *Service) Usage(ctx context.Context, req *UsageRequest) (UsagePage, error) {
	ns, err := r.cfg.Engine.Admit(req.Call, policy.RunsRead|policy.RunsWrite)
	if err != nil {
		return UsagePage{}, err
	}
	size, err := validate.PageSize(req.PageSize)
	if err != nil {
		return UsagePage{}, err
	}
	search, err := req.days()
	if err != nil {
		return UsagePage{}, err
	}
	after, err := req.after()
	if err != nil {
		return UsagePage{}, err
	}
	g := usageGroups{req: req, namespace: cmp.Or(req.Namespace, runtime.DefaultNamespace), groups: map[string]*UsageGroup{}}
	if g.values, err = req.dimensions(); err != nil {
		return UsagePage{}, err
	}
	since, err := r.cfg.Store.Usage(ctx, ns, search, g.add)
	if err == nil {
		err = g.err
	}
	if err != nil {
		return UsagePage{}, validate.ListFailed("usage", err)
	}
	return g.page(after, size, since)
}

// days returns the days of the request.
func (req *UsageRequest) days() (machine.UsageSearch, error) {
	search := machine.UsageSearch{From: math.MinInt64 / int64(24*time.Hour), To: math.MaxInt64 / int64(24*time.Hour)}
	for _, bound := range []struct {
		field, text string
		day         *int64
	}{{"from_day", req.From, &search.From}, {"to_day", req.To, &search.To}} {
		if bound.text == "" {
			continue
		}
		at, err := time.Parse(time.DateOnly, bound.text)
		if err != nil {
			return search, validate.Malformed("BAD_DAY", bound.field, fmt.Sprintf("%q is no day: it is YYYY-MM-DD, for example 2026-11-30", bound.text))
		}
		*bound.day = at.Unix() / int64(24*time.Hour/time.Second)
	}
	if search.From > search.To {
		return search, validate.Malformed("BAD_DAY", "to_day", fmt.Sprintf("%s is before from_day, %s", req.To, req.From))
	}
	return search, nil
}

func dayName(day int64) string {
	return time.Unix(day*int64(24*time.Hour/time.Second), 0).UTC().Format(time.DateOnly)
}

// after returns the values of the last group of the page before.
func (req *UsageRequest) after() (values []string, err error) {
	if req.Position == "" {
		return nil, nil
	}
	text, ok := strings.CutPrefix(req.Position, positionMark)
	if values = strings.Split(text, groupSeparator); !ok || len(values) != len(req.By) {
		return nil, validate.Malformed("BAD_PAGE_TOKEN", "page_token", "is not a token of this list")
	}
	return values, nil
}

// dimensions returns a function for each dimension, which returns its value in a rollup.
func (req *UsageRequest) dimensions() ([]func(namespace string, r *machine.UsageRow) string, error) {
	out := make([]func(string, *machine.UsageRow) string, len(req.By))
	for i, name := range req.By {
		key, label := strings.CutPrefix(name, labelDimension)
		switch {
		case usageDimensions[name] != nil:
			out[i] = usageDimensions[name]
		case label && key != "":
			out[i] = func(_ string, r *machine.UsageRow) string { return labelOf(r, machine.UsageName(key)) }
		default:
			return nil, validate.Malformed("BAD_DIMENSION", "group_by", fmt.Sprintf("%q is no dimension: it is one of %s or label:KEY",
				name, strings.Join(slices.Sorted(maps.Keys(usageDimensions)), ", ")))
		}
	}
	return out, nil
}

func labelOf(r *machine.UsageRow, key string) string {
	for _, l := range r.Labels {
		if l.Key == key {
			return l.Value
		}
	}
	return ""
}

func (req *UsageRequest) selects(r *machine.UsageRow) bool {
	is := func(want *string, value string) bool { return want == nil || machine.UsageName(*want) == value }
	if !is(req.Pack, r.Pack) || !is(req.State, r.State) || !is(req.Model, r.Model) || !is(req.Tool, r.Tool) {
		return false
	}
	for _, l := range req.Labels {
		if !slices.Contains(r.Labels, machine.Label{Key: machine.UsageName(l.Key), Value: machine.UsageName(l.Value)}) {
			return false
		}
	}
	return true
}

// usageGroups collects the groups of one request.
type usageGroups struct {
	req       *UsageRequest
	namespace string
	values    []func(namespace string, r *machine.UsageRow) string
	groups    map[string]*UsageGroup
	total     machine.UsageSum
	rows      int
	err       error
}

// add adds a rollup to its group. It returns false if the request would read or return too much.
func (g *usageGroups) add(r *machine.UsageRow) bool {
	if g.rows++; g.rows > maxUsageRows {
		g.err = tooMuchUsage("rollups", maxUsageRows)
		return false
	}
	if !g.req.selects(r) {
		return true
	}
	values := make([]string, len(g.values))
	for i, value := range g.values {
		values[i] = value(g.namespace, r)
	}
	key := strings.Join(values, groupSeparator)
	group := g.groups[key]
	if group == nil {
		if len(g.groups) == maxUsageGroups {
			g.err = tooMuchUsage("groups", maxUsageGroups)
			return false
		}
		group = &UsageGroup{Values: values}
		g.groups[key] = group
	}
	group.Add(r.UsageSum)
	g.total.Add(r.UsageSum)
	return true
}

func tooMuchUsage(what string, limit int64) error {
	return &machine.Error{
		Code: machine.CodeResourceExhausted, Reason: "USAGE_TOO_LARGE", Field: "from_day", Limit: limit, Got: limit + 1,
		Message: fmt.Sprintf("the request selects more than %d %s: ask for fewer days or dimensions", limit, what),
	}
}

// page returns the groups after the given values.
func (g *usageGroups) page(after []string, size int, since machine.UsageSince) (UsagePage, error) {
	page := UsagePage{Total: g.total, Since: since}
	all := slices.SortedFunc(maps.Values(g.groups), func(a, b *UsageGroup) int { return slices.Compare(a.Values, b.Values) })
	for _, group := range all {
		if g.req.Position != "" && slices.Compare(group.Values, after) <= 0 {
			continue
		}
		if len(page.Groups) == size {
			page.Next = positionMark + strings.Join(page.Groups[size-1].Values, groupSeparator)
			return page, nil
		}
		page.Groups = append(page.Groups, *group)
	}
	return page, nil
}
