package delegation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/consent"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
)

// Outbox lists rows of a kind, earliest first.
func (r *Room) Outbox(ctx context.Context, kind machine.OutboxKind, limit int) ([]machine.OutboxRow, error) {
	rows, err := r.cfg.Store.Outbox(ctx, kind, math.MaxInt64, limit)
	if err != nil {
		return nil, fmt.Errorf("delegation: outbox: %w", err)
	}
	return rows, nil
}

// DropOutbox removes a row of kind [machine.OutboxCancel] that is done with.
func (r *Room) DropOutbox(ctx context.Context, row machine.OutboxRow) error {
	if err := r.cfg.Store.DropOutbox(ctx, row); err != nil {
		return fmt.Errorf("delegation: outbox: %w", err)
	}
	return nil
}

// Delegation reads a delegation that is pending; [machine.ErrNoStep] = it is over.
func (r *Room) Delegation(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error) {
	key := runtime.RunKey{Namespace: row.Namespace, ID: row.RunID}
	s, err := r.cfg.Way.Head(ctx, key)
	if err != nil {
		return machine.Delegation{}, err
	}
	step := pendingDelegation(s, row)
	if step == nil {
		return machine.Delegation{}, machine.ErrNoStep
	}
	del, err := r.delegationOf(ctx, key, s, row, step.RequestSeq)
	if err == nil {
		err = r.approved(ctx, key, s, step, &del)
	}
	if err != nil || step.Remote == nil {
		return del, err
	}
	del.Remote = *step.Remote
	if del.Remote.Answer == 0 {
		return del, nil
	}
	rec, err := r.cfg.Past.Record(ctx, key, del.Remote.Answer)
	if input, ok := rec.Body.(*machine.InputReceived); ok {
		del.Answer, del.Answerer = input.Parts, machine.Answerer{Name: rec.Principal, Scopes: input.Scopes}
	}
	return del, err
}

// approved reads what was approved instead of what was asked for, and makes sure that it is:
// what is not is held again, or answered, and the delegation is over.
func (r *Room) approved(ctx context.Context, key runtime.RunKey, s *machine.State, step *machine.ToolStep, del *machine.Delegation) error {
	if step.Approval == nil {
		return nil
	}
	view, err := r.cfg.Past.Step(ctx, key, step)
	if err != nil {
		return err
	}
	del.Payload = view.Payload
	if step.Remote != nil {
		return nil
	}
	err = consent.Verify(s, step, view.Payload, r.cfg.Clock.Now().UnixNano())
	if err == nil {
		return nil
	}
	if _, failed := r.cfg.Way.Own(ctx, key, consent.Refusal(step, err)); failed != nil {
		return failed
	}
	return machine.ErrNoStep
}

func pendingDelegation(s *machine.State, row machine.OutboxRow) *machine.ToolStep {
	for i := range s.Steps {
		p := &s.Steps[i]
		if p.Step == row.Step && p.Attempt == row.Attempt && p.Delegation && p.Status == machine.StepStatusPending && !p.Awaits() {
			return p
		}
	}
	return nil
}

// CalledOff reads a delegation that is over as it was last known. Its visit may
// be left, so the journal is read for it.
func (r *Room) CalledOff(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error) {
	key := runtime.RunKey{Namespace: row.Namespace, ID: row.RunID}
	s, err := r.cfg.Way.Head(ctx, key)
	if err != nil {
		return machine.Delegation{}, err
	}
	request, remote, err := r.findDelegation(ctx, key, row)
	if err != nil {
		return machine.Delegation{}, err
	}
	del, err := r.delegationOf(ctx, key, s, row, request)
	del.Remote = remote
	return del, err
}

// findDelegation looks for the record that asked for a step, and for the last news
// of the row's attempt.
func (r *Room) findDelegation(ctx context.Context, key runtime.RunKey, row machine.OutboxRow) (request uint64, remote machine.Remote, err error) {
	for from := uint64(1); ; {
		entries, err := r.cfg.Store.Entries(ctx, key.Namespace, key.ID, from, machine.Page{})
		if err != nil {
			return 0, remote, fmt.Errorf("delegation: journal of run %s: %w", key.ID, err)
		}
		for i := range entries {
			if err := entries[i].Told(); err != nil {
				return 0, remote, err
			}
			for _, rec := range entries[i].Records {
				switch b := rec.Body.(type) {
				case *machine.StepRequested:
					if b.Step == row.Step {
						request = rec.Seq
					}
				case *machine.StepDelegated:
					if b.Step == row.Step && b.Attempt == row.Attempt {
						remote = b.Remote
					}
				}
				from = rec.Seq + 1
			}
		}
		if len(entries) == 0 {
			if request == 0 {
				return 0, remote, machine.ErrNoStep
			}
			return request, remote, nil
		}
	}
}

// delegationOf reads what a delegation says. What was left of the wall time is
// that of the moment when the step was asked for, so that it is the same whenever
// it is read, also behind the end of the run.
func (r *Room) delegationOf(ctx context.Context, key runtime.RunKey, s *machine.State, row machine.OutboxRow, request uint64) (machine.Delegation, error) {
	entry, err := r.cfg.Store.Entry(ctx, key.Namespace, key.ID, request)
	if err != nil {
		return machine.Delegation{}, fmt.Errorf("delegation: read record %d of run %s: %w", request, key.ID, err)
	}
	prog, err := r.cfg.Programs.Of(ctx, key.Namespace, s)
	if err != nil {
		return machine.Delegation{}, err
	}
	rec := entry.Records[request-entry.First]
	asked, ok := rec.Body.(*machine.StepRequested)
	if !ok {
		return machine.Delegation{}, machine.ErrNoStep
	}
	del := machine.Delegation{
		Row: row, Digest: s.Digest, PackID: s.PackID, Agent: asked.Tool, Payload: asked.Payload, Depth: s.Depth, Execution: s.Execution,
		Traceparent: trace.Delegation(s, row.Step, row.Attempt), OnUnknown: prog.Graph.Tools[asked.Tool].OnUnknown,
	}
	del.Lease = machine.Amount{
		Tokens: asked.Bound.InputTokens + asked.Bound.OutputTokens, CostMicro: asked.Bound.CostMicro, ToolCalls: int64(asked.Bound.ToolCalls),
	}
	del.Policy = asked.Policy
	del.WallTime, err = r.wallLeft(ctx, key, prog.Graph, s, rec)
	return del, err
}

// wallLeft is what was left of a run's wall time at a record; 0 = no bound. Where
// the head has forgotten it, because the run has ended or its clock stood in
// between, the state of that time knows.
func (r *Room) wallLeft(ctx context.Context, key runtime.RunKey, g *machine.Graph, s *machine.State, rec machine.Record) (time.Duration, error) {
	if s.Status.Terminal() || g.WallExcludesWaiting {
		past, err := r.cfg.Past.Replay(ctx, key, g, rec.Seq)
		if err != nil {
			return 0, err
		}
		s = past
	}
	switch {
	case s.WallLeft != 0:
		return time.Duration(s.WallLeft), nil
	case s.Deadline != 0:
		return max(time.Duration(s.Deadline-rec.At), time.Millisecond), nil
	}
	return 0, nil
}

// NoteDelegation commits what is news of a pending delegation.
func (r *Room) NoteDelegation(ctx context.Context, row machine.OutboxRow, remote machine.Remote, question []machine.Part) error {
	return r.deliver(ctx, row, machine.NoteDelegation{Step: row.Step, Attempt: row.Attempt, Remote: remote, Question: question})
}

// ResolveDelegation answers the step of a delegation.
func (r *Room) ResolveDelegation(ctx context.Context, row machine.OutboxRow, outcome machine.Outcome) error {
	s, err := r.cfg.Way.Head(ctx, runtime.RunKey{Namespace: row.Namespace, ID: row.RunID})
	if err != nil {
		return err
	}
	step := pendingDelegation(s, row)
	if step == nil {
		return machine.ErrNoStep
	}
	return r.deliver(ctx, row, machine.ResolveStep{
		Step: row.Step, Tool: step.Tool, Attempt: row.Attempt,
		OK: outcome.OK, Result: outcome.Result, Error: outcome.Error, Final: outcome.Final, Unknown: outcome.Unknown, Usage: outcome.Usage,
		Metered: outcome.Metered,
	})
}

// deliver makes an input of the engine's own; one that comes too late is no error.
func (r *Room) deliver(ctx context.Context, row machine.OutboxRow, command machine.Command) error {
	_, err := r.cfg.Way.Own(ctx, runtime.RunKey{Namespace: row.Namespace, ID: row.RunID}, command)
	if refusal, ok := errors.AsType[*machine.Refusal](err); ok && refusal.Reason == "RUN_TERMINAL" {
		return nil
	}
	return err
}
