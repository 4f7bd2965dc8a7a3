package router

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

func mustBe(t *testing.T, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

// TestCountsAreAddedUp: each field of the counts is added up separately.
func TestCountsAreAddedUp(t *testing.T) {
	t.Parallel()
	a := &pawlv1.CheckCounts{Runs: 1, Entries: 2, Deleted: 3}
	mustBe(t, added(a, &pawlv1.CheckCounts{Runs: 10, Packs: 20, Deleted: 30}), &pawlv1.CheckCounts{Runs: 11, Entries: 2, Packs: 20, Deleted: 33})
	mustBe(t, a, &pawlv1.CheckCounts{Runs: 1, Entries: 2, Deleted: 3})
}

// TestStatsAreAddedUp: namespaces stay separate, and the default one is that of the first partition. Rows
// without a namespace are added up. Each partition reports the whole size on disk, so the largest one
// counts.
func TestStatsAreAddedUp(t *testing.T) {
	t.Parallel()
	of := func(tree int64, name string, rows ...*pawlv1.RowStats) *pawlv1.StoreStats {
		return &pawlv1.StoreStats{
			TreeBytes: tree, Shared: rows, Namespaces: []*pawlv1.NamespaceStats{{Name: "default"}, {Name: name, Number: 1}},
		}
	}
	sum := &pawlv1.StoreStats{}
	AddStats(sum, of(5, "red", &pawlv1.RowStats{Kind: "format", Rows: 1, KeyBytes: 2, ValueBytes: 3}))
	AddStats(sum, of(7, "blue", &pawlv1.RowStats{Kind: "backup", Rows: 1}, &pawlv1.RowStats{Kind: "format", Rows: 4, KeyBytes: 5, ValueBytes: 6}))
	mustBe(t, sum, &pawlv1.StoreStats{
		TreeBytes: 7, Namespaces: []*pawlv1.NamespaceStats{{Name: "default"}, {Name: "red", Number: 1}, {Name: "blue", Number: 1}},
		Shared: []*pawlv1.RowStats{{Kind: "backup", Rows: 1}, {Kind: "format", Rows: 5, KeyBytes: 7, ValueBytes: 9}},
	})
}

// TestLimitsAreAddedUp: limits are added up by key and tenant. Those with the most waiting calls come first.
func TestLimitsAreAddedUp(t *testing.T) {
	t.Parallel()
	use := func(key string, open int64, held time.Duration, tenants ...*pawlv1.TenantQueue) *pawlv1.LimitUse {
		return &pawlv1.LimitUse{Key: key, Open: open, Started: open, Tokens: open, Admitted: open, Waited: open, Held: durationpb.New(held), Waiting: tenants}
	}
	of := func(uses ...*pawlv1.LimitUse) *pawlv1.ListLimitsResponse {
		return &pawlv1.ListLimitsResponse{Limits: []*pawlv1.Limit{{Id: "gpt", Concurrent: 9, Uses: uses}}}
	}
	sum := &pawlv1.ListLimitsResponse{}
	addLimits(sum, of(use("a", 1, time.Second, &pawlv1.TenantQueue{Tenant: "t", Calls: 1}), use("b", 2, 0)))
	addLimits(sum, of(use("b", 3, time.Minute, &pawlv1.TenantQueue{Tenant: "u", Calls: 1}, &pawlv1.TenantQueue{Tenant: "t", Calls: 4}), use("c", 4, 0)))
	addLimits(sum, &pawlv1.ListLimitsResponse{Limits: []*pawlv1.Limit{{Id: "new"}}})
	want := of(
		use("b", 5, time.Minute, &pawlv1.TenantQueue{Tenant: "t", Calls: 4}, &pawlv1.TenantQueue{Tenant: "u", Calls: 1}),
		use("a", 1, time.Second, &pawlv1.TenantQueue{Tenant: "t", Calls: 1}), use("c", 4, 0),
	)
	want.Limits = append(want.Limits, &pawlv1.Limit{Id: "new"})
	mustBe(t, sum, want)
	many := of()
	for i := range mostUses + 5 {
		many.Limits[0].Uses = append(many.Limits[0].Uses, use(time.Duration(i).String(), 0, 0))
	}
	addLimits(sum, many)
	if got := len(sum.GetLimits()[0].GetUses()); got != mostUses {
		t.Errorf("%d uses are told", got)
	}
}
