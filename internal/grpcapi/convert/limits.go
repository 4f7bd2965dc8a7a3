package convert

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/ratelimit"
	"github.com/pawl-dev/pawl/internal/runtime/schedule"
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

// ModelPaused sets the pause before the next attempt in a response of AnswerModel, if the operator's rate limits
// require a longer pause than the response contains.
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
		slices.SortStableFunc(own, func(a, b *ratelimit.Figure) int { return cmp.Compare(b.QueuedCalls(), a.QueuedCalls()) })
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

// AccountToProto converts an account with its present amounts.
func AccountToProto(v *budget.View) *pawlv1.Account {
	return &pawlv1.Account{
		Name: v.Name, WindowStart: TimeToProto(v.Begin), WindowEnd: TimeToProto(v.End),
		SettledTokens: v.Settled.Tokens, SettledCostMicroUsd: v.Settled.CostMicro,
		ReservedTokens: v.Held.Tokens, ReservedCostMicroUsd: v.Held.CostMicro,
		MaxTokens: v.Limit.Tokens, MaxCostMicroUsd: v.Limit.CostMicro, Refused: v.Refused,
	}
}

// sharesToProto converts the amounts that a run has reserved and consumed in each account.
func sharesToProto(charges []machine.Charge) []*pawlv1.AccountShare {
	shares := make([]*pawlv1.AccountShare, len(charges))
	for i := range charges {
		c := &charges[i]
		shares[i] = &pawlv1.AccountShare{
			Name: c.Account, WindowStart: TimeToProto(c.Window),
			SettledTokens: c.Tokens, SettledCostMicroUsd: c.CostMicro,
			ReservedTokens: c.HeldTokens, ReservedCostMicroUsd: c.HeldCostMicro,
		}
	}
	return shares
}

// SchedulesToProto converts the operator's schedules, with their next times and their last results, for the answer of
// ListSchedules.
func SchedulesToProto(shown []schedule.ListedSchedule) *pawlv1.ListSchedulesResponse {
	out := &pawlv1.ListSchedulesResponse{}
	for i := range shown {
		out.Schedules = append(out.Schedules, scheduleToProto(&shown[i]))
	}
	return out
}

// scheduleToProto converts one schedule. The last time is set only if the schedule has started a run. A fault has the
// reason and the message of the engine's error only if this is a [machine.Error].
func scheduleToProto(s *schedule.ListedSchedule) *pawlv1.Schedule {
	p := &s.Start.Principal
	out := &pawlv1.Schedule{
		ScheduleId: s.ID, Cron: s.Rule.Cron(), TimeZone: s.Rule.Zone(), CatchUp: s.Catch.String(), Overlap: "allow",
		JitterSec: int32(s.Jitter / time.Second), Pack: s.Start.Pack, Agent: s.Start.Agent, Principal: p.Name(), Scopes: p.Scopes.Names(),
		LastRunId: s.Mark.RunID, Fired: s.Mark.Fired, Missed: s.Mark.Missed, Skipped: s.Mark.Skipped, Paused: s.Paused,
	}
	if s.Skip {
		out.Overlap = "skip"
	}
	if s.Mark.Fired > 0 {
		out.LastAt = TimeToProto(s.Mark.At)
	}
	for _, next := range s.Next {
		out.Next = append(out.Next, TimeToProto(next.UnixNano()))
	}
	if f := s.Fault; f != nil {
		out.Fault = &pawlv1.ScheduleFault{
			Instant: TimeToProto(f.Instant.UnixNano()), Attempts: int32(f.Attempts), Since: TimeToProto(f.Since.UnixNano()), Message: "the run could not be started",
		}
		if refusal, ok := errors.AsType[*machine.Error](f.Err); ok && refusal.Code != machine.CodeInternal {
			out.Fault.Reason, out.Fault.Message = refusal.Reason, refusal.Message
		}
	}
	return out
}
