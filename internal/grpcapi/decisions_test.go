package grpcapi

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// decided is a run with a held call in each of two steps, of which the first was denied and the second approved.
func (r *rig) decided(ctx context.Context, pack string) string {
	r.t.Helper()
	control := pawlv1.NewControlServiceClient(r.conn)
	turn := r.startRun(ctx, "", pack, "a", "b")
	for i, decision := range []pawlv1.StepDecision{pawlv1.StepDecision_STEP_DECISION_DENY, pawlv1.StepDecision_STEP_DECISION_APPROVE} {
		step := i + 1
		if _, err := control.DecideStep(ctx, &pawlv1.DecideStepRequest{
			RunId: turn.GetRunId(), Step: uint32(step), Digest: r.digestOf(ctx, "", turn.GetRunId(), step), Decision: decision, Reason: fmt.Sprint("reason ", step),
		}); err != nil {
			r.t.Fatal(err)
		}
	}
	return turn.GetRunId()
}

// history reads all pages of a list of decisions, with pages of the given size. It returns "run step verdict" of each.
func (r *rig) history(ctx context.Context, req *pawlv1.ListDecisionsRequest) (all []*pawlv1.Decision, removed uint64) {
	r.t.Helper()
	req = proto.CloneOf(req)
	for {
		page, err := pawlv1.NewControlServiceClient(r.conn).ListDecisions(ctx, req)
		if err != nil {
			r.t.Fatal(err)
		}
		if most := int(req.GetPageSize()); most != 0 && len(page.GetDecisions()) > most {
			r.t.Fatalf("a page of %d has %d decisions", most, len(page.GetDecisions()))
		}
		all, removed = append(all, page.GetDecisions()...), removed+page.GetRemovedEntries()
		if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
			return all, removed
		}
	}
}

// TestListDecisions: the list has each decision once, the newest first, over pages of any size, with the time when the call began to wait. The
// filters select; a deleted run is counted as what the list lacks.
func TestListDecisions(t *testing.T) {
	t.Parallel()
	r, ctx := newRig(t), testContext(t)
	r.register1(ctx, "", controlled("held", `"max_tokens": 1000, "tools": {"run_tests": {"approve": "always"}}`))
	r.register1(ctx, "", controlled("also", `"max_tokens": 1000, "tools": {"run_tests": {"approve": "always"}}`))
	first, second, third := r.decided(ctx, "held"), r.decided(ctx, "also"), r.decided(ctx, "held")
	all, removed := r.history(ctx, &pawlv1.ListDecisionsRequest{})
	if len(all) != 6 || removed != 0 {
		t.Fatalf("%d decisions, %d removed: %v", len(all), removed, all)
	}
	for i, run := range []string{third, third, second, second, first, first} {
		d, record := all[i], all[i].GetRecord()
		if d.GetRunId() != run || record.GetRunId() != run || record.GetStepDecided().GetTool() != "run_tests" || record.GetPrincipal() == "" {
			t.Errorf("decision %d: %v", i, d)
		}
		if waited := record.GetAt().AsTime().Sub(d.GetSince().AsTime()); waited < 0 || waited > time.Hour {
			t.Errorf("decision %d waited %v", i, waited)
		}
		if i > 0 && record.GetAt().AsTime().After(all[i-1].GetRecord().GetAt().AsTime()) {
			t.Errorf("decision %d is newer than the one before it", i)
		}
	}
	for size := range int32(7) {
		got, _ := r.history(ctx, &pawlv1.ListDecisionsRequest{PageSize: size})
		if !slices.EqualFunc(got, all, func(a, b *pawlv1.Decision) bool { return proto.Equal(a, b) }) {
			t.Errorf("pages of %d: %v", size, got)
		}
	}
	middle, newest := all[3].GetRecord().GetAt(), all[0].GetRecord()
	for name, c := range map[string]struct {
		filter *pawlv1.ListDecisionsRequest
		want   int
	}{
		"run":            {&pawlv1.ListDecisionsRequest{RunId: second, PageSize: 1}, 2},
		"verdict":        {&pawlv1.ListDecisionsRequest{Verdicts: []pawlv1.StepVerdict{pawlv1.StepVerdict_STEP_VERDICT_DENIED}}, 3},
		"no verdict":     {&pawlv1.ListDecisionsRequest{Verdicts: []pawlv1.StepVerdict{pawlv1.StepVerdict_STEP_VERDICT_EDITED}}, 0},
		"tool":           {&pawlv1.ListDecisionsRequest{Tool: "run_tests"}, 6},
		"no tool":        {&pawlv1.ListDecisionsRequest{Tool: "absent"}, 0},
		"principal":      {&pawlv1.ListDecisionsRequest{Principal: newest.GetPrincipal()}, 6},
		"no principal":   {&pawlv1.ListDecisionsRequest{Principal: "somebody"}, 0},
		"pack":           {&pawlv1.ListDecisionsRequest{Pack: "also"}, 2},
		"pack@version":   {&pawlv1.ListDecisionsRequest{Pack: "held@" + all[0].GetPackVersion()}, 4},
		"no label":       {&pawlv1.ListDecisionsRequest{Labels: map[string]string{"team": "none"}}, 0},
		"from":           {&pawlv1.ListDecisionsRequest{From: timestamppb.New(newest.GetAt().AsTime().Add(time.Nanosecond))}, 0},
		"from and to":    {&pawlv1.ListDecisionsRequest{From: middle, To: timestamppb.New(middle.AsTime().Add(time.Nanosecond))}, countAt(all, middle)},
		"to":             {&pawlv1.ListDecisionsRequest{To: all[5].GetRecord().GetAt()}, 0},
		"all run filter": {&pawlv1.ListDecisionsRequest{RunId: first, Tool: "run_tests", Pack: "held", Principal: newest.GetPrincipal()}, 2},
	} {
		if got, _ := r.history(ctx, c.filter); len(got) != c.want {
			t.Errorf("%s: %d decisions, want %d", name, len(got), c.want)
		}
	}
	_, err := pawlv1.NewControlServiceClient(r.conn).ListDecisions(ctx, &pawlv1.ListDecisionsRequest{PageToken: "x"})
	wantError(t, err, codes.InvalidArgument, "BAD_PAGE_TOKEN")
	_, err = pawlv1.NewControlServiceClient(r.conn).ListDecisions(ctx, &pawlv1.ListDecisionsRequest{RunId: strings.Repeat("0", 26)})
	wantError(t, err, codes.NotFound, "RUN_NOT_FOUND")
}

func countAt(all []*pawlv1.Decision, at *timestamppb.Timestamp) (n int) {
	for _, d := range all {
		if d.GetRecord().GetAt().AsTime().Equal(at.AsTime()) {
			n++
		}
	}
	return n
}
