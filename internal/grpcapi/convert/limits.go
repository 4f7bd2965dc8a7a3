package convert

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
)

// ProviderLimitsFromProto converts the limits that a provider reported. It returns nil if there are
// none.
func ProviderLimitsFromProto(in *pawlv1.ProviderLimits) *ratelimit.ProviderLimits {
	if in == nil {
		return nil
	}
	return &ratelimit.ProviderLimits{
		Requests: in.Requests, RequestsReset: in.GetRequestsReset().AsDuration(),
		Tokens: in.Tokens, TokensReset: in.GetTokensReset().AsDuration(),
	}
}

// ModelPaused adds the pause that the operator's limits require to a response of AnswerModel.
func ModelPaused(out *pawlv1.AnswerModelResponse, pause time.Duration) *pawlv1.AnswerModelResponse {
	if out.GetNext() > 0 && pause > out.GetWait().AsDuration() {
		out.Wait = durationpb.New(pause)
	}
	return out
}

// LimitWaitListToProto converts the list of limits for which the calls of a run wait.
func LimitWaitListToProto(waits []ratelimit.Wait) (out []*pawlv1.LimitWait) {
	for i := range waits {
		w := &waits[i]
		to := &pawlv1.LimitWait{Model: w.Model, Tool: w.Tool, Step: w.Step, Waited: durationpb.New(w.For), Ahead: int32(w.Ahead)}
		for n := range w.Limits {
			to.Limits = append(to.Limits, &pawlv1.LimitKey{Limit: w.Limits[n], Key: w.Keys[n]})
		}
		out = append(out, to)
	}
	return out
}

// These constants bound the number of entries for one limit in a ListLimits response.
const (
	maxLimitUses    = 1000
	maxLimitTenants = 100
)

// LimitsToProto converts a table of limits with its current counts.
func LimitsToProto(table *ratelimit.Table, figures []ratelimit.Figure) *pawlv1.ListLimitsResponse {
	out := &pawlv1.ListLimitsResponse{}
	for _, l := range table.Limits {
		to := &pawlv1.Limit{Id: l.ID, Key: l.Source, Concurrent: l.Concurrent, PerMinute: l.PerMinute, TokensPerMinute: l.TokensPerMinute}
		var own []*ratelimit.Figure
		for i := range figures {
			if figures[i].Limit == l.ID {
				own = append(own, &figures[i])
			}
		}
		slices.SortStableFunc(own, func(a, b *ratelimit.Figure) int { return cmp.Compare(b.Queued(), a.Queued()) })
		for _, f := range own[:min(len(own), maxLimitUses)] {
			to.Uses = append(to.Uses, limitUse(f))
		}
		out.Limits = append(out.Limits, to)
	}
	return out
}

func limitUse(f *ratelimit.Figure) *pawlv1.LimitUse {
	out := &pawlv1.LimitUse{Key: f.Key, Open: f.Open, Started: f.Started, Tokens: f.Tokens, Admitted: f.Admitted, Waited: f.Waited}
	if f.Held > 0 {
		out.Held = durationpb.New(f.Held)
	}
	for tenant, calls := range f.Waiting {
		out.Waiting = append(out.Waiting, &pawlv1.TenantQueue{Tenant: tenant, Calls: calls})
	}
	slices.SortFunc(out.Waiting, func(a, b *pawlv1.TenantQueue) int {
		return cmp.Or(cmp.Compare(b.GetCalls(), a.GetCalls()), cmp.Compare(a.GetTenant(), b.GetTenant()))
	})
	out.Waiting = out.Waiting[:min(len(out.Waiting), maxLimitTenants)]
	return out
}
