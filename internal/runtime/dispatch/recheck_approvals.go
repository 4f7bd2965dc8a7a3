package dispatch

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// RecheckApprovals looks at an answer to requests before a caller that makes its calls itself gets it. An
// approved call whose approval is over is held again, and one whose tool the operator's allowlist
// admits no longer is answered with that, as they would be before a worker gets them; one that
// an earlier answer gave out may have been made since: its outcome is unknown, and on_unknown
// says what follows. A call that a worker has went out in time. What the answer gives out is noted
// before it leaves (ADR 0083). True: the caller is answered by the request that
// is given back, for the same steps under their keys.
func (r *Dispatcher) RecheckApprovals(ctx context.Context, req runtime.StepsRequest, answer *runtime.Answer) (again runtime.StepsRequest, lapsed bool, err error) {
	s := answer.State
	if s == nil || req.Worker != nil { // what is asked for under a lease goes out to workers
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
		lapsed = true
	}
	if !lapsed {
		return req, false, r.recordHandout(ctx, req.Principal.Name(), answer)
	}
	again = req
	again.ID, again.Requests = "", keyed(req.Requests, answer.Steps)
	return again, lapsed, nil
}

// withholdCommand is the input that says of a call that no worker has why it does not leave. Whether a
// caller that was given it made it is unknown.
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

// unnoted: an answer may have given the call out without a note of that. The record of a request
// says by itself that the caller has the first attempt of a call that it makes; approved calls and
// further attempts are noted. What no worker asked for, and no caller said that it makes, has no
// notes.
func unnoted(g *machine.Graph, s *machine.State, step *machine.ToolStep) bool {
	switch {
	case step.Approval != nil:
		return false
	case step.ByCaller:
		return step.Attempt == 1
	}
	return !s.Execution.Leased() || outside(g, s)
}

// outside: the turn is not offered to workers, callers from outside execute it.
func outside(g *machine.Graph, s *machine.State) bool {
	node := g.States[s.Current]
	return node != nil && node.Orchestration == machine.External
}

// recordHandout stores which calls of an answer its caller may make from now on: a holder without a
// worker, in whose place comes the worker that gets the step. A call that needs no approval has no
// note in its first attempt.
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

// hasWorker: a worker has the step, or is about to get it.
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

// holderOf is who has a step: a worker, a caller that was given it, or nobody.
func (r *Dispatcher) holderOf(ctx context.Context, s *machine.State, g *machine.Graph, step uint32) (machine.StepHolder, error) {
	holder, err := r.cfg.Store.StepHolder(ctx, outgoing(g, s, step))
	if errors.Is(err, machine.ErrNoStep) {
		return machine.StepHolder{}, nil
	}
	return holder, err
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
