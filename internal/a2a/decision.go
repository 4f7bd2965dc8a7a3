package a2a

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// decide records a decision about a tool call of the task's run that waits for approval. The principal that answers
// needs the scope for decisions. The rights of the task's sender are not used.
func (s *Service) decide(ctx context.Context, m *inbound, state *machine.State, c *machine.DecideStep) (runtime.Answer, error) {
	answer, err := s.cfg.Engine.Apply(ctx, runtime.Request{
		RunRef: runtime.RunRef{Call: m.speaker, RunID: state.RunID}, ID: m.id, Command: *c,
	})
	if reasonOf(err) == "RUN_TERMINAL" {
		return answer, failAt(unsupportedOperation, "message.taskId", "task %s has ended, nothing is left to decide", state.RunID)
	}
	return answer, err
}

// passesOn reports whether a decision is about a held tool call (one that waits for approval) of a run that this run
// started by a delegation. Otherwise the call is one of this run. A call with the decision's step number and digest
// is one of this run. If the principal may not see the call's payload, the number is enough: comparing the digest
// would reveal whether a guess of the payload is right.
func (s *Service) passesOn(ctx context.Context, speaker runtime.Call, state *machine.State, c *machine.DecideStep) (bool, error) {
	if askingStep(state) == 0 {
		return false, nil
	}
	for i := range state.Steps {
		p := &state.Steps[i]
		if p.Step != c.Step || !p.HeldForApproval() {
			continue
		}
		if p.Approval.Digest == c.Digest {
			return false, nil
		}
		if speaker.Principal.Scopes.Has(runtime.ScopeValuesSensitive) {
			return true, nil
		}
		owner, err := s.cfg.Engine.PackOf(ctx, s.cfg.Engine.NamespaceName(state.Namespace), state)
		return err == nil && !owner.XPawl().SensitiveNames().Payload(p.Tool), err
	}
	return true, nil
}
