package delegation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/machine/trace"
)

// Outbox lists the stored outbox rows (outgoing work) of one kind: delegations to send, or tasks to
// cancel. The row that is due first comes first.
func (r *Service) Outbox(ctx context.Context, kind machine.OutboxKind, limit int) ([]machine.OutboxRow, error) {
	rows, err := r.cfg.Store.Outbox(ctx, kind, math.MaxInt64, limit)
	if err != nil {
		return nil, fmt.Errorf("delegation: outbox: %w", err)
	}
	return rows, nil
}

// DropOutbox removes a finished row of kind [machine.OutboxCancel].
func (r *Service) DropOutbox(ctx context.Context, row machine.OutboxRow) error {
	if err := r.cfg.Store.DropOutbox(ctx, row); err != nil {
		return fmt.Errorf("delegation: outbox: %w", err)
	}
	return nil
}

// Delegation reads a delegation that is not answered yet. It returns [machine.ErrNoStep] if there is nothing to send:
// the delegation is over, or its message must not be sent, for example because its approval has expired. In the second
// case, Delegation first holds the step for a new approval or answers it with an error.
func (r *Service) Delegation(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error) {
	key := runtime.RunKey{Namespace: row.Namespace, ID: row.RunID}
	s, err := r.cfg.Engine.Head(ctx, key)
	if err != nil {
		return machine.Delegation{}, err
	}
	step := pendingDelegation(s, row)
	if step == nil {
		return machine.Delegation{}, machine.ErrNoStep
	}
	del, wrong, err := r.readApproved(ctx, key, s, row, step)
	if err != nil {
		return del, err
	}
	if wrong != nil {
		return del, r.refuse(ctx, key, step, wrong)
	}
	if del.Remote.Answer == 0 {
		return del, nil
	}
	rec, err := r.cfg.Past.Record(ctx, key, del.Remote.Answer)
	if input, ok := rec.Body.(*machine.InputReceived); ok {
		del.Answer, del.Answerer = input.Parts, machine.Answerer{Name: rec.Principal, Scopes: input.Scopes}
	}
	return del, err
}

// readApproved reads a delegation with its approved payload. wrong is the reason why its message may not be
// sent, or nil. A message may not be sent if it is not the approved one. Before the first send, the
// operator's allowlist must also admit the agent, and the approval must not have expired. A message
// that may already have reached the agent may be sent again at any time.
func (r *Service) readApproved(ctx context.Context, key runtime.RunKey, s *machine.State, row machine.OutboxRow, step *machine.ToolStep) (
	del machine.Delegation, wrong, err error,
) {
	if del, err = r.delegationOf(ctx, key, s, row, step.RequestSeq); err != nil {
		return del, nil, err
	}
	if step.Remote != nil {
		del.Remote = *step.Remote
	}
	if step.Remote.Unsent() {
		prog, err := r.cfg.Programs.ProgramOf(ctx, key.Namespace, s)
		if err != nil {
			return del, nil, err
		}
		if wrong := approval.CheckAllowed(r.cfg.Allow, prog.Graph, step); wrong != nil {
			return del, wrong, nil
		}
	}
	if step.Approval == nil {
		return del, nil, nil
	}
	view, err := r.cfg.Past.Step(ctx, key, step)
	if err != nil {
		return del, nil, err
	}
	del.Payload = view.Payload
	if del.Remote.TaskID != "" {
		return del, nil, nil
	}
	now := int64(0)
	if step.Remote.Unsent() {
		now = r.cfg.Clock.Now().UnixNano()
	}
	return del, approval.Verify(s, step, del.Payload, now), nil
}

// refuse is called for a delegation whose message may not be sent. It holds the step for a new approval
// or answers the step with an error.
func (r *Service) refuse(ctx context.Context, key runtime.RunKey, step *machine.ToolStep, wrong error) error {
	command := approval.Refusal(step, wrong)
	if answer, ok := command.(machine.ResolveStep); ok {
		answer.Unknown = step.Remote.MayBeSent()
		command = answer
	}
	if _, err := r.cfg.Engine.ApplyInternal(ctx, key, command); err != nil {
		return err
	}
	return machine.ErrNoStep
}

func pendingDelegation(s *machine.State, row machine.OutboxRow) *machine.ToolStep {
	for i := range s.Steps {
		p := &s.Steps[i]
		if p.Step == row.Step && p.Attempt == row.Attempt && p.Delegation && p.Status == machine.StepStatusPending && !p.HeldForApproval() {
			return p
		}
	}
	return nil
}

// CalledOff reads the last known state of a delegation that is over. It reads the journal, because the run's state does
// not contain the step after the run has left the visit. [machine.ErrNoStep] means that there is no task to cancel,
// because no message was sent, or that the stored message is not the approved one.
func (r *Service) CalledOff(ctx context.Context, row machine.OutboxRow) (machine.Delegation, error) {
	key := runtime.RunKey{Namespace: row.Namespace, ID: row.RunID}
	s, err := r.cfg.Engine.Head(ctx, key)
	if err != nil {
		return machine.Delegation{}, err
	}
	step, err := r.findDelegation(ctx, key, row)
	if err != nil {
		return machine.Delegation{}, err
	}
	if step.RequestSeq == 0 || step.Remote.Unsent() {
		return machine.Delegation{}, machine.ErrNoStep
	}
	del, wrong, err := r.readApproved(ctx, key, s, row, step)
	if err == nil && wrong != nil {
		err = machine.ErrNoStep
	}
	return del, err
}

// findDelegation computes the step of an outbox row from the journal of the run. The result contains
// the step's request, the decision of its approval, and the last known state of the row's attempt.
func (r *Service) findDelegation(ctx context.Context, key runtime.RunKey, row machine.OutboxRow) (*machine.ToolStep, error) {
	step := &machine.ToolStep{Step: row.Step, Attempt: row.Attempt, Delegation: true}
	for from := uint64(1); ; {
		entries, err := r.cfg.Store.Entries(ctx, key.Namespace, key.ID, from, machine.Page{})
		if err != nil {
			return nil, fmt.Errorf("delegation: journal of run %s: %w", key.ID, err)
		}
		if len(entries) == 0 {
			return step, nil
		}
		for i := range entries {
			if err := entries[i].CheckNotErased(); err != nil {
				return nil, err
			}
			for j := range entries[i].Records {
				rec := &entries[i].Records[j]
				applyRecord(step, rec)
				from = rec.Seq + 1
			}
		}
	}
}

// applyRecord applies one record of the journal to the step of a delegation. It ignores records about other
// steps.
func applyRecord(step *machine.ToolStep, rec *machine.Record) {
	switch b := rec.Body.(type) {
	case *machine.StepRequested:
		if b.Step != step.Step {
			return
		}
		step.RequestSeq, step.Tool = rec.Seq, b.Tool
		if b.Hold != nil {
			step.Approval = &machine.StepApproval{Held: true}
		}
	case *machine.StepDecided:
		if b.Step != step.Step || step.Approval == nil {
			return
		}
		a := step.Approval
		a.Held, a.Verdict, a.Digest, a.Expires = b.Verdict == machine.Expired, b.Verdict, b.Digest, b.Expires
		if b.Verdict == machine.Edited {
			a.PayloadSeq = rec.Seq
		}
	case *machine.StepDelegated:
		if b.Step == step.Step && b.Attempt == step.Attempt {
			remote := b.Remote
			step.Remote = &remote
		}
	}
}

// delegationOf reads the contents of a delegation. Except for Paused, they never change, even after the end of the run.
// For example, the wall time is the time that the run had left when the step was requested.
func (r *Service) delegationOf(ctx context.Context, key runtime.RunKey, s *machine.State, row machine.OutboxRow, request uint64) (machine.Delegation, error) {
	entry, err := r.cfg.Store.Entry(ctx, key.Namespace, key.ID, request)
	if err != nil {
		return machine.Delegation{}, fmt.Errorf("delegation: read record %d of run %s: %w", request, key.ID, err)
	}
	prog, err := r.cfg.Programs.ProgramOf(ctx, key.Namespace, s)
	if err != nil {
		return machine.Delegation{}, err
	}
	rec := entry.Records[request-entry.First]
	requested, ok := rec.Body.(*machine.StepRequested)
	if !ok {
		return machine.Delegation{}, machine.ErrNoStep
	}
	del := machine.Delegation{
		Row: row, Digest: s.Digest, PackID: s.PackID, Agent: requested.Tool, Payload: requested.Payload, Depth: s.Depth, Execution: s.Execution,
		Traceparent: trace.Delegation(s, row.Step, row.Attempt), Paused: s.Paused,
	}
	del.OnUnknown, del.Keyed = prog.Graph.Tools[requested.Tool].OnUnknown, len(prog.Graph.Tools[requested.Tool].Dedupe) > 0
	del.Lease = machine.Amount{
		Tokens: requested.Bound.InputTokens + requested.Bound.OutputTokens, CostMicro: requested.Bound.CostMicro, ToolCalls: int64(requested.Bound.ToolCalls),
	}
	del.Policy = requested.Policy
	if requested.Local {
		labels, _ := s.AccountLabels()
		del.Payer = &machine.Payer{Labels: labels}
	}
	del.WallTime, err = r.wallLeft(ctx, key, prog.Graph, s, rec)
	return del, err
}

// wallLeft returns the wall time that a run had left when rec was written. 0 means that there is no
// limit. The current state does not have this time if the run has ended, or if its clock stops while it
// waits. Then wallLeft replays the earlier state.
func (r *Service) wallLeft(ctx context.Context, key runtime.RunKey, g *machine.Graph, s *machine.State, rec machine.Record) (time.Duration, error) {
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

// Announce commits that the message of a pending delegation is about to be sent. The message may be
// sent only if Announce returns true. The result is false if the run is paused, the approval has
// expired, or the delegation is over.
func (r *Service) Announce(ctx context.Context, row machine.OutboxRow, remote machine.Remote) (bool, error) {
	answer, err := r.cfg.Engine.ApplyInternal(ctx, runtime.RunKey{Namespace: row.Namespace, ID: row.RunID}, machine.NoteDelegation{
		Step: row.Step, Attempt: row.Attempt, Remote: remote,
	})
	return err == nil && answer.Disposition == machine.Accepted, err
}

// NoteDelegation commits a changed state of a pending delegation: its task id or the agent's question.
func (r *Service) NoteDelegation(ctx context.Context, row machine.OutboxRow, remote machine.Remote, question []machine.Part) error {
	return r.deliver(ctx, row, machine.NoteDelegation{Step: row.Step, Attempt: row.Attempt, Remote: remote, Question: question})
}

// ResolveDelegation commits the outcome of the step of a delegation.
func (r *Service) ResolveDelegation(ctx context.Context, row machine.OutboxRow, outcome machine.Outcome) error {
	s, err := r.cfg.Engine.Head(ctx, runtime.RunKey{Namespace: row.Namespace, ID: row.RunID})
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

// deliver applies an input of the sidecar itself to a run. If the run has already ended, deliver
// returns no error.
func (r *Service) deliver(ctx context.Context, row machine.OutboxRow, command machine.Command) error {
	_, err := r.cfg.Engine.ApplyInternal(ctx, runtime.RunKey{Namespace: row.Namespace, ID: row.RunID}, command)
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Reason == "RUN_TERMINAL" {
		return nil
	}
	return err
}
