package dispatch

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// RecheckApprovals checks the approved calls in an answer before the answer is sent to a caller that makes the calls
// itself.
//
// If the approval of a call has expired, the call waits for approval again. If the operator's allowlist no longer
// contains the tool, the call is answered with an error. If an earlier answer already contained the call, the caller
// may have made it. The outcome is then unknown, and on_unknown decides what happens. A call that a worker has was sent
// in time and is not checked.
//
// RecheckApprovals stores which calls the answer contains, before the answer is sent (ADR 0083). expired reports whether a call was
// withheld, for any of these reasons. The caller must then get the answer to the returned request, which is for the same steps.
func (r *Dispatcher) RecheckApprovals(ctx context.Context, req runtime.StepsRequest, answer *runtime.Answer) (again runtime.StepsRequest, expired bool, err error) {
	s := answer.State
	if s == nil || req.Worker != nil { // the requester is a worker, so the steps are sent to workers
		return req, false, nil
	}
	key := runtime.RunKey{Namespace: s.Namespace, ID: s.RunID}
	for _, step := range approval.CallerSteps(s, answer.Steps) {
		wrong := approval.CheckAllowed(r.cfg.Allow, answer.Graph, step)
		if wrong == nil {
			wrong = approval.InTime(step, r.cfg.Clock.Now().UnixNano())
		}
		if wrong == nil {
			continue
		}
		holder, err := r.holderOf(ctx, s, answer.Graph, step.Step)
		if err != nil {
			return req, false, err
		}
		if holder.Worker != "" {
			continue
		}
		if _, err := r.cfg.Engine.ApplyInternal(ctx, key, withholdCommand(answer.Graph, s, step, holder, wrong)); err != nil {
			return req, false, err
		}
		expired = true
	}
	if !expired {
		return req, false, r.recordHandout(ctx, req.Principal.Name(), answer)
	}
	again = req
	again.ID, again.Requests = "", keyed(req.Requests, answer.Steps)
	return again, expired, nil
}

// withholdCommand returns the input that records why a call is not given to the caller. No worker may have the call. If a caller may have
// received it before, its outcome is unknown, and LoseStep names the caller in place of a worker.
func withholdCommand(g *machine.Graph, s *machine.State, step *machine.ToolStep, holder machine.StepHolder, wrong error) machine.Command {
	command := approval.Refusal(step, wrong)
	answer, denied := command.(machine.ResolveStep)
	switch {
	case holder.Principal == "" && !unnoted(g, s, step):
		return command
	case denied:
		answer.Unknown, answer.Metered = true, false
		return answer
	}
	return machine.LoseStep{Step: step.Step, Attempt: step.Attempt, Worker: holder.Principal}
}

// unnoted reports whether the caller may have received the call although the store does not record it. The store
// records that a caller received an approved call, or a second or later attempt of a call that it declared as its own.
// It does not record the first attempt of a declared call, or other calls of a turn that a caller executes.
func unnoted(g *machine.Graph, s *machine.State, step *machine.ToolStep) bool {
	switch {
	case step.Approval != nil:
		return false
	case step.ByCaller:
		return step.Attempt == 1
	}
	return !s.Execution.Leased() || outside(g, s)
}

// outside reports whether callers with the scope events:external execute the turn, and not workers.
func outside(g *machine.Graph, s *machine.State) bool {
	node := g.States[s.Current]
	return node != nil && node.Orchestration == machine.External
}

// recordHandout stores which calls of an answer the caller may make. It stores a holder with a principal and without a
// worker for each of these calls. If a worker gets the step later, the worker replaces this holder. The first attempt
// of a call without approval is not stored.
func (r *Dispatcher) recordHandout(ctx context.Context, caller string, answer *runtime.Answer) error {
	s := answer.State
	for _, step := range approval.CallerSteps(s, answer.Steps) {
		if unnoted(answer.Graph, s, step) {
			continue
		}
		holder, err := r.holderOf(ctx, s, answer.Graph, step.Step)
		if err != nil {
			return err
		}
		if holder != (machine.StepHolder{}) || r.hasWorker(s, step.Step) {
			continue
		}
		err = r.cfg.Store.HoldStep(ctx, outgoing(answer.Graph, s, step.Step), machine.StepHolder{Principal: caller})
		if err != nil && !errors.Is(err, machine.ErrNoStep) {
			return err
		}
	}
	return nil
}

// hasWorker reports whether a worker has the step or is about to receive it.
func (r *Dispatcher) hasWorker(s *machine.State, step uint32) bool {
	sp := r.shard(s.Namespace)
	if sp == nil {
		return false
	}
	sp.mu.Lock()
	defer sp.mu.Unlock()
	run := sp.runs[s.RunID]
	return run != nil && run.steps[step] != nil && run.steps[step].lease != nil
}

// holderOf returns the stored holder of a step: the worker or the caller that received it. It returns the zero value if
// there is none.
func (r *Dispatcher) holderOf(ctx context.Context, s *machine.State, g *machine.Graph, step uint32) (machine.StepHolder, error) {
	holder, err := r.cfg.Store.StepHolder(ctx, outgoing(g, s, step))
	if errors.Is(err, machine.ErrNoStep) {
		return machine.StepHolder{}, nil
	}
	return holder, err
}

// keyed returns the requests with the keys of the steps in the answers, so that the requests can be repeated.
func keyed(requests []machine.StepRequest, answers []runtime.StepAnswer) []machine.StepRequest {
	requests = slices.Clone(requests)
	for i := range min(len(requests), len(answers)) {
		if requests[i].Call == nil {
			requests[i].Key = answers[i].Key
		}
	}
	return requests
}
