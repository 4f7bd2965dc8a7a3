package godriver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// controlArgs are those of verbs by which people control a run.
type controlArgs struct {
	Decision string          `json:"decision"`
	Digest   string          `json:"digest"`
	Payload  json.RawMessage `json:"payload"`
	Reason   string          `json:"reason"`
	// Expires is in seconds from now.
	Expires float64 `json:"expires"`
	When    string  `json:"when"`
	// IncludeRequired is true by default: the sidecar adds the required messages.
	IncludeRequired *bool `json:"include_required"`
	MaxTokens       int64 `json:"max_tokens"`
	MaxCost         int64 `json:"max_cost_micro_usd"`
}

func (d *driver) control() pawlv1.ControlServiceClient {
	d.mu.Lock()
	defer d.mu.Unlock()
	return pawlv1.NewControlServiceClient(d.conn)
}

// approvals are what waits of the run, and their digests are remembered for decide.
func (d *driver) approvals(ctx context.Context, a args) (any, error) {
	run := d.runID(a)
	got, err := retry(ctx, d.control().ListApprovals, &pawlv1.ListApprovalsRequest{RunId: run})
	if err != nil {
		return nil, err
	}
	list := []any{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range got.GetApprovals() {
		list = append(list, canonical(one))
		d.digests[inspectedCall{run, one.GetCall().GetStep()}] = one.GetCall().GetApproval().GetDigest()
	}
	return map[string]any{"approvals": list}, nil
}

// inspectedCall is a call that was looked at.
type inspectedCall struct {
	run  string
	step uint32
}

// decide is about the call that was looked at last, unless a digest is given.
func (d *driver) decide(ctx context.Context, a args) (any, error) {
	req := &pawlv1.DecideStepRequest{
		RunId: d.runID(a), Step: a.Step, Digest: a.Digest, Reason: a.Reason, RequestId: idOrNew(a.ID),
		Decision: pawlv1.StepDecision(pawlv1.StepDecision_value["STEP_DECISION_"+a.Decision]),
	}
	if req.GetDigest() == "" {
		d.mu.Lock()
		req.Digest = d.digests[inspectedCall{req.GetRunId(), a.Step}]
		d.mu.Unlock()
	}
	if a.Expires != 0 {
		req.Expires = timestamppb.New(time.Now().Add(time.Duration(a.Expires * float64(time.Second))))
	}
	if a.Decision == "EDIT" {
		req.PayloadJson = string(a.Payload)
	}
	got, err := retry(ctx, d.control().DecideStep, req)
	return canonical(got), err
}

func (d *driver) steer(ctx context.Context, a args) (any, error) {
	when, known := pawlv1.SteerWhen_value["STEER_WHEN_"+a.When]
	if !known && a.When != "" {
		if _, err := fmt.Sscan(a.When, &when); err != nil {
			return nil, err
		}
	}
	got, err := retry(ctx, d.control().SteerRun, &pawlv1.SteerRunRequest{
		RunId: d.runID(a), Text: a.Text, When: pawlv1.SteerWhen(when), RequestId: idOrNew(a.ID),
	})
	return canonical(got), err
}

func (d *driver) stopRun(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.control().StopRun, &pawlv1.StopRunRequest{RunId: d.runID(a), Note: a.Note, RequestId: idOrNew(a.ID)})
	return canonical(got), err
}

func (d *driver) raiseBudget(ctx context.Context, a args) (any, error) {
	got, err := retry(ctx, d.control().RaiseBudget, &pawlv1.RaiseBudgetRequest{
		RunId: d.runID(a), MaxTokens: a.MaxTokens, MaxCostMicroUsd: a.MaxCost, Reason: a.Reason, RequestId: idOrNew(a.ID),
	})
	return canonical(got), err
}
