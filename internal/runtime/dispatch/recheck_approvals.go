package dispatch

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// RecheckApprovals checks the approved calls in an answer again, before the answer is sent to a caller
// that executes its calls itself.
//
// If the approval of a call has expired, the call is held again. If the operator's allowlist no longer
// contains the tool of a call, the call is answered with a refusal. The calls of workers are treated in
// the same way. If an earlier answer released the call, the caller may have made the call since. Then
// the outcome of the call is unknown, and on_unknown decides what follows. A call that a worker holds
// was sent in time and is not checked.
//
// RecheckApprovals records the calls that the answer releases, before the answer is sent (ADR 0083). If
// expired is true, the caller must be answered by the returned request instead. This request is for the
// same steps with the same keys.
func (r *Dispatcher) RecheckApprovals(ctx context.Context, req runtime.StepsRequest, answer *runtime.Answer) (again runtime.StepsRequest, expired bool, err error) {
	s := answer.State
	if s == nil || req.Worker != nil { // workers execute a step that was requested under a lease
		return req, false, nil
	}
	key := runtime.RunKey{Namespace: s.Namespace, ID: s.RunID}
	for _, step := range approval.Given(s, answer.Steps) {
		wrong := approval.Allowed(r.cfg.Allow, answer.Graph, step)
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

// withholdCommand returns the input that records why a call is not released. The call must not be held
// by a worker. If a caller may have received the call, the outcome of the call is unknown.
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

// unnoted reports whether an answer may have released the call although no record shows this. The
// following releases have a record: the first attempt of a call that the caller makes itself (the
// record of the request), an approved call, and a further attempt. A call that no worker requested and
// that no caller declared as its own is not recorded.
func unnoted(g *machine.Graph, s *machine.State, step *machine.ToolStep) bool {
	switch {
	case step.Approval != nil:
		return false
	case step.ByCaller:
		return step.Attempt == 1
	}
	return !s.Execution.Leased() || outside(g, s)
}

// outside reports whether external callers execute the turn, so that it is not offered to workers.
func outside(g *machine.Graph, s *machine.State) bool {
	node := g.States[s.Current]
	return node != nil && node.Orchestration == machine.External
}

// recordHandout stores which calls of an answer the caller may make after it has received the answer.
// The stored holder has a principal and no worker. If a worker gets the step later, this worker
// replaces the holder. The first attempt of a call that needs no approval is not recorded.
func (r *Dispatcher) recordHandout(ctx context.Context, caller string, answer *runtime.Answer) error {
	s := answer.State
	for _, step := range approval.Given(s, answer.Steps) {
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

// hasWorker reports whether a worker holds the step or is about to receive it.
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

// holderOf returns the stored holder of a step: a worker, or a caller that received the step. It returns the zero value if there is no
// holder.
func (r *Dispatcher) holderOf(ctx context.Context, s *machine.State, g *machine.Graph, step uint32) (machine.StepHolder, error) {
	holder, err := r.cfg.Store.StepHolder(ctx, outgoing(g, s, step))
	if errors.Is(err, machine.ErrNoStep) {
		return machine.StepHolder{}, nil
	}
	return holder, err
}

// keyed returns the requests with the keys from their answers added.
func keyed(requests []machine.StepRequest, answers []runtime.StepAnswer) []machine.StepRequest {
	requests = slices.Clone(requests)
	for i := range min(len(requests), len(answers)) {
		if requests[i].Call == nil {
			requests[i].Key = answers[i].Key
		}
	}
	return requests
}
