package grpcapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestQueryUsage: usage is grouped by each dimension, over pages of any size, and the total is that of all pages. The filters
// select, also what has no tool. A foreign page token, an unknown dimension and a bad day are refused.
func TestQueryUsage(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register1(ctx, "", controlled("one", `"max_tokens": 1000`))
	r.register1(ctx, "", controlled("two", `"max_tokens": 1000`))
	runs, control := pawlv1.NewRunServiceClient(r.conn), pawlv1.NewControlServiceClient(r.conn)
	for i, pack := range []string{"one", "two", "one"} {
		start := startRequest()
		start.Pack, start.Labels = pack, map[string]string{"team": fmt.Sprint("team-", i)}
		got, err := runs.StartRun(ctx, start)
		if err != nil {
			t.Fatal(err)
		}
		turn := got.GetTurn()
		if _, err := runs.FailTurn(ctx, &pawlv1.FailTurnRequest{
			RunId: turn.GetRunId(), TurnSeq: turn.GetTurnSeq(), Attempt: turn.GetAttempt(), TurnToken: turn.GetToken(),
			Error: &pawlv1.Fault{Code: "X"}, Usage: &pawlv1.Usage{InputTokens: 1, OutputTokens: 2, CostMicroUsd: int64(100 + i), Model: fmt.Sprint("model-", i)},
		}); err != nil {
			t.Fatal(err)
		}
	}
	query := func(req *pawlv1.QueryUsageRequest) (shown []string) {
		t.Helper()
		req = proto.CloneOf(req)
		sum := int64(0)
		for {
			page, err := control.QueryUsage(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			if most := int(req.GetPageSize()); most != 0 && len(page.GetGroups()) > most {
				t.Fatalf("a page of %d has %d groups", most, len(page.GetGroups()))
			}
			for _, g := range page.GetGroups() {
				shown = append(shown, fmt.Sprint(strings.Join(g.GetValues(), "/"), " ", g.GetCostMicroUsd(), " ", g.GetReports()))
				sum += g.GetCostMicroUsd()
			}
			if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
				if page.GetTotal().GetCostMicroUsd() != sum || !page.GetComplete() {
					t.Errorf("total %v, the groups have %d", page.GetTotal(), sum)
				}
				return shown
			}
		}
	}
	none, one := "", "one"
	for _, c := range []struct {
		req  *pawlv1.QueryUsageRequest
		want []string
	}{
		{&pawlv1.QueryUsageRequest{}, []string{" 303 3"}},
		{&pawlv1.QueryUsageRequest{GroupBy: []string{"pack"}}, []string{"one 202 2", "two 101 1"}},
		{&pawlv1.QueryUsageRequest{GroupBy: []string{"namespace", "tool"}}, []string{"default/ 303 3"}},
		{&pawlv1.QueryUsageRequest{GroupBy: []string{"label:team", "model"}, PageSize: 1}, []string{"team-0/model-0 100 1", "team-1/model-1 101 1", "team-2/model-2 102 1"}},
		{&pawlv1.QueryUsageRequest{GroupBy: []string{"model", "label:none"}, PageSize: 2}, []string{"model-0/ 100 1", "model-1/ 101 1", "model-2/ 102 1"}},
		{&pawlv1.QueryUsageRequest{GroupBy: []string{"model"}, Pack: &one, Tool: &none, Labels: map[string]string{"team": "team-2"}}, []string{"model-2 102 1"}},
		{&pawlv1.QueryUsageRequest{Model: &none}, nil},
		{&pawlv1.QueryUsageRequest{ToDay: "2001-01-01"}, nil},
		{&pawlv1.QueryUsageRequest{FromDay: "2001-01-01", ToDay: "2999-01-01"}, []string{" 303 3"}},
	} {
		if got := query(c.req); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.req, got, c.want)
		}
	}
	if got := query(&pawlv1.QueryUsageRequest{GroupBy: []string{"day"}}); len(got) == 0 || len(got) > 2 {
		t.Errorf("days %q", got)
	} else if _, err := time.Parse(time.DateOnly, strings.Fields(got[0])[0]); err != nil {
		t.Error(err)
	}
	first, err := control.QueryUsage(ctx, &pawlv1.QueryUsageRequest{GroupBy: []string{"model"}, PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	for reason, req := range map[string]*pawlv1.QueryUsageRequest{
		"BAD_DIMENSION":  {GroupBy: []string{"label:"}},
		"BAD_DAY":        {FromDay: "2026-02-31"},
		"BAD_PAGE_TOKEN": {GroupBy: []string{"pack"}, PageToken: first.GetNextPageToken()},
	} {
		_, err := control.QueryUsage(ctx, req)
		wantError(t, err, codes.InvalidArgument, reason)
	}
}
