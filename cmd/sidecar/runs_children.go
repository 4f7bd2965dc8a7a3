package main

import (
	"context"
	"fmt"
	"slices"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

// child is one attempt to delegate work to an agent, with the task that the agent made for it. The task is a task of
// a remote agent, or a run of this sidecar.
type child struct {
	step    uint32
	attempt int32
	agent   string
	// task is the id of the task, and card is the URL of the agent's card. If card is empty, task is the id of a run. Both are empty until
	// the agent answers.
	task, card string
	// status is "pending", "ok", "error" or "cancelled".
	status string
}

// childKinds are the kinds of records about delegations.
var childKinds = []pawlv1.RecordKind{
	pawlv1.RecordKind_RECORD_KIND_STEP_REQUESTED, pawlv1.RecordKind_RECORD_KIND_STEP_DELEGATED,
	pawlv1.RecordKind_RECORD_KIND_STEP_RESOLVED, pawlv1.RecordKind_RECORD_KIND_STEP_CANCELLED,
}

// childrenOf returns the delegations of a run up to a record, in the order in which their steps were requested.
func childrenOf(ctx context.Context, runs pawlv1.RunServiceClient, r *pawlv1.Run) ([]*child, error) {
	found, err := records(ctx, runs, r.GetNamespace(), r.GetRunId(), childKinds)
	if err != nil {
		return nil, err
	}
	var list children
	for _, record := range found {
		if record.GetSeq() <= r.GetSeq() {
			list.add(record)
		}
	}
	return list, nil
}

type children []*child

func (c *children) add(r *pawlv1.Record) {
	switch body := r.GetBody().(type) {
	case *pawlv1.Record_StepRequested:
		if s := body.StepRequested; s.GetDelegation() {
			*c = append(*c, &child{step: s.GetStep(), attempt: 1, agent: s.GetTool(), status: "pending"})
		}
	case *pawlv1.Record_StepDelegated:
		s := body.StepDelegated
		if d := c.last(s.GetStep()); d != nil {
			d.task, d.card = s.GetRemote().GetTaskId(), s.GetRemote().GetCardUrl()
		}
	case *pawlv1.Record_StepResolved:
		c.resolved(body.StepResolved)
	case *pawlv1.Record_StepCancelled:
		if d := c.last(body.StepCancelled.GetStep()); d != nil {
			d.status = "cancelled"
		}
	}
}

// resolved records the end of an attempt to delegate. If another attempt follows, it adds this attempt.
func (c *children) resolved(s *pawlv1.StepResolved) {
	d := c.last(s.GetStep())
	if d == nil {
		return
	}
	if d.status = "error"; s.GetOk() {
		d.succeeded(s.GetResultJson())
	}
	if s.GetNext() > 0 {
		*c = append(*c, &child{step: d.step, attempt: s.GetNext(), agent: d.agent, status: "pending"})
	}
}

// succeeded sets the result of an attempt to delegate. The result names the agent's task if no earlier record did.
func (c *child) succeeded(result string) {
	var of struct {
		TaskID  string `json:"task_id"`
		CardURL string `json:"card_url"`
	}
	c.status = "ok"
	if c.task == "" && strictjson.Decode([]byte(result), &of, strictjson.Foreign) == nil {
		c.task, c.card = of.TaskID, of.CardURL
	}
}

// last returns the last attempt of a step to delegate. It returns nil if the step is not a delegation.
func (c *children) last(step uint32) *child {
	for _, d := range slices.Backward(*c) {
		if d.step == step {
			return d
		}
	}
	return nil
}

// String describes the delegation in one line.
func (c *child) String() string {
	text := fmt.Sprintf("step %d: %s, %s", c.step, c.agent, c.status)
	if c.attempt > 1 {
		text = fmt.Sprintf("step %d, attempt %d: %s, %s", c.step, c.attempt, c.agent, c.status)
	}
	switch {
	case c.card != "":
		return text + ", task " + c.task + " of " + c.card
	case c.task != "":
		return text + ", run " + c.task
	}
	return text
}

func (c *child) object() output.Object {
	return output.Object{
		{Key: "step", Value: c.step}, {Key: "attempt", Value: c.attempt}, {Key: "agent", Value: c.agent},
		{Key: "status", Value: c.status}, {Key: "task_id", Value: c.task}, {Key: "card_url", Value: c.card},
	}
}

func childObjects(list []*child) []output.Object {
	out := make([]output.Object, len(list))
	for i, c := range list {
		out[i] = c.object()
	}
	return out
}

func printChildren(p *output.Printer, list []*child) {
	for _, c := range list {
		printLine(p, "child", c.String())
	}
}

// parentOf describes the step and the run that started a run. It returns "" if the run has no parent.
func parentOf(r *pawlv1.Run) string {
	p := r.GetParent()
	if p == nil {
		return ""
	}
	text := fmt.Sprintf("step %d of %s", p.GetStep(), p.GetRunId())
	if p.GetOrigin() != "" {
		text += " at " + p.GetOrigin()
	}
	return text
}
