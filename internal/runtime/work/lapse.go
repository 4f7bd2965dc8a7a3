package work

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/consent"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/rules"
)

// Lapse holds calls again whose approval is over, where a caller executes calls itself and is
// about to make those that it asked for; they are held as calls are that a worker would get.
// A call that a worker has went out in time. True: the caller is answered by the request that
// is given back, for the same steps under their keys.
func (r *Room) Lapse(ctx context.Context, req runtime.StepsRequest, answer *runtime.Answer) (again runtime.StepsRequest, lapsed bool, err error) {
	s := answer.State
	if s == nil || s.Execution.Leased() {
		return req, false, nil
	}
	key := runtime.RunKey{Namespace: s.Namespace, ID: s.RunID}
	for _, step := range consent.Over(s, answer.Steps, r.cfg.Clock.Now().UnixNano()) {
		out, err := r.isOut(ctx, s, answer.Graph, step.Step)
		if err != nil {
			return req, false, err
		}
		if out {
			continue
		}
		if _, err := r.cfg.Way.Own(ctx, key, consent.Refusal(step, consent.ErrLapsed)); err != nil {
			return req, false, err
		}
		lapsed = true
	}
	again = req
	again.ID, again.Requests = "", keyed(req.Requests, answer.Steps)
	return again, lapsed, nil
}

// isOut reports whether a worker has a step.
func (r *Room) isOut(ctx context.Context, s *machine.State, g *machine.Graph, step uint32) (bool, error) {
	for _, row := range rules.Outbox(g, s) {
		if row.Kind != machine.OutboxStep || row.Step != step {
			continue
		}
		holder, err := r.cfg.Store.StepHolder(ctx, row)
		if errors.Is(err, machine.ErrNoStep) {
			return false, nil
		}
		return holder != (machine.StepHolder{}), err
	}
	return false, nil
}

// keyed are requests under the keys that they were answered with.
func keyed(requests []machine.StepRequest, answers []runtime.StepAnswer) []machine.StepRequest {
	requests = slices.Clone(requests)
	for i := range min(len(requests), len(answers)) {
		if requests[i].Call == nil {
			requests[i].Key = answers[i].Key
		}
	}
	return requests
}
