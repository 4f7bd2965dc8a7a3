package router

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// added returns a message whose fields are the sums of the fields of a and b. All fields are numbers.
func added(a, b *pawlv1.CheckCounts) *pawlv1.CheckCounts {
	sum := proto.CloneOf(a)
	b.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to := sum.ProtoReflect()
		to.Set(field, protoreflect.ValueOfInt64(to.Get(field).Int()+value.Int()))
		return true
	})
	return sum
}

// AddStats adds the statistics of another partition to `to`. The sizes are not added: all partitions share the same
// database tables and report their size, so the largest reported size is used. The default namespace is in the first
// partition and is empty in all others.
func AddStats(to, from *pawlv1.StoreStats) {
	first := len(to.GetNamespaces()) == 0
	for _, space := range from.GetNamespaces() {
		if first || space.GetNumber() != 0 || len(space.GetRows()) > 0 {
			to.Namespaces = append(to.Namespaces, space)
		}
	}
	to.Shared = addRows(to.GetShared(), from.GetShared())
	to.TreeBytes = max(to.GetTreeBytes(), from.GetTreeBytes())
	to.ValueLogBytes = max(to.GetValueLogBytes(), from.GetValueLogBytes())
}

// addRows adds the row counts of the same kinds. The result stays sorted by kind.
func addRows(to, from []*pawlv1.RowStats) []*pawlv1.RowStats {
	for _, rows := range from {
		i, there := slices.BinarySearchFunc(to, rows.GetKind(), func(r *pawlv1.RowStats, kind string) int { return cmp.Compare(r.GetKind(), kind) })
		if !there {
			to = slices.Insert(to, i, &pawlv1.RowStats{Kind: rows.GetKind()})
		}
		to[i].Rows += rows.GetRows()
		to[i].KeyBytes += rows.GetKeyBytes()
		to[i].ValueBytes += rows.GetValueBytes()
	}
	return to
}

// These are the maximum numbers of uses and of waiting tenants in a ListLimits response, for one limit.
// The protobuf contract has the same maximums.
const (
	mostUses    = 1000
	mostTenants = 100
)

// addLimits adds the counts of one partition to sum. All partitions have the same limits, except for a
// short time after the operator's file was read again.
func addLimits(sum, one *pawlv1.ListLimitsResponse) {
	for _, limit := range one.GetLimits() {
		i := slices.IndexFunc(sum.GetLimits(), func(l *pawlv1.Limit) bool { return l.GetId() == limit.GetId() })
		if i < 0 {
			sum.Limits = append(sum.Limits, limit)
			continue
		}
		sum.Limits[i].Uses = addUses(sum.GetLimits()[i].GetUses(), limit.GetUses())
	}
}

// addUses adds the uses of limits in another partition to those in to, by their keys. The uses with the most
// waiting calls come first.
func addUses(to, from []*pawlv1.LimitUse) []*pawlv1.LimitUse {
	byKey := make(map[string]*pawlv1.LimitUse, len(to))
	for _, use := range to {
		byKey[use.GetKey()] = use
	}
	for _, use := range from {
		if sum := byKey[use.GetKey()]; sum != nil {
			addUse(sum, use)
			continue
		}
		to = append(to, use)
	}
	slices.SortStableFunc(to, func(a, b *pawlv1.LimitUse) int { return cmp.Compare(waitingIn(b), waitingIn(a)) })
	return to[:min(len(to), mostUses)]
}

func waitingIn(use *pawlv1.LimitUse) (calls int64) {
	for _, queue := range use.GetWaiting() {
		calls += queue.GetCalls()
	}
	return calls
}

// addUse adds the use of a limit in one partition to the sum over all partitions. The sum keeps only the tenants
// with the most waiting calls.
func addUse(sum, use *pawlv1.LimitUse) {
	sum.Open += use.GetOpen()
	sum.Started += use.GetStarted()
	sum.Tokens += use.GetTokens()
	sum.Admitted += use.GetAdmitted()
	sum.Waited += use.GetWaited()
	if use.GetHeld().AsDuration() > sum.GetHeld().AsDuration() {
		sum.Held = use.GetHeld()
	}
	for _, queue := range use.GetWaiting() {
		i := slices.IndexFunc(sum.GetWaiting(), func(q *pawlv1.TenantQueue) bool { return q.GetTenant() == queue.GetTenant() })
		if i < 0 {
			sum.Waiting = append(sum.Waiting, queue)
			continue
		}
		sum.Waiting[i].Calls += queue.GetCalls()
	}
	slices.SortStableFunc(sum.Waiting, func(a, b *pawlv1.TenantQueue) int { return cmp.Compare(b.GetCalls(), a.GetCalls()) })
	sum.Waiting = sum.Waiting[:min(len(sum.Waiting), mostTenants)]
}
