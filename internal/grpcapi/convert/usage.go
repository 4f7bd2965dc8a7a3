package convert

import (
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
)

// UsageFromProto converts a QueryUsage request. position is what its page token says.
func UsageFromProto(call runtime.Call, in *pawlv1.QueryUsageRequest, position string) *query.UsageRequest {
	return &query.UsageRequest{
		Call: call, From: in.GetFromDay(), To: in.GetToDay(), By: in.GetGroupBy(),
		Pack: in.Pack, State: in.State, Model: in.Model, Tool: in.Tool, //nolint:protogetter // nil means any value
		Labels: labelsFromProto(in.GetLabels()), Position: position, PageSize: int(in.GetPageSize()),
	}
}

// UsageToProto converts a page of usage.
func UsageToProto(in *pawlv1.QueryUsageRequest, page *query.UsagePage) *pawlv1.QueryUsageResponse {
	out := &pawlv1.QueryUsageResponse{
		NextPageToken: PageToken(in, page.Next), Total: usageGroupToProto(nil, &page.Total), Complete: page.Since.Complete, Since: TimeToProto(page.Since.At),
	}
	for i := range page.Groups {
		out.Groups = append(out.Groups, usageGroupToProto(page.Groups[i].Values, &page.Groups[i].UsageSum))
	}
	return out
}

func usageGroupToProto(values []string, u *machine.UsageSum) *pawlv1.UsageGroup {
	return &pawlv1.UsageGroup{Values: values, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CostMicroUsd: u.CostMicro, Reports: u.Reports}
}
