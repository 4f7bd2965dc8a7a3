package redact

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Views finds the packs of runs.
type Views interface {
	// PackOf returns the pack of a run whose state is given. PackFor returns the state and the pack of a run, if the
	// caller may see it.
	PackOf(ctx context.Context, namespace string, s *machine.State) (*pack.Pack, error)
	PackFor(ctx context.Context, ref runtime.RunRef) (*machine.State, *pack.Pack, error)
}

// Gate decides which values of a run a caller may get.
type Gate struct{ Views Views }

// Hidden reports whether sensitive values must be hidden from a call that reads.
func Hidden(call runtime.Call) bool {
	return !call.Principal.Scopes.Has(runtime.ScopeValuesSensitive)
}

// Rules returns the rules for the sensitive values of a run. It returns nil if there are none.
func (g Gate) Rules(ctx context.Context, namespace string, state *machine.State) (*Rules, error) {
	owner, err := g.Views.PackOf(ctx, namespace, state)
	if err != nil {
		return nil, err
	}
	return NewRules(owner.XPawl().SensitiveNames().InRun(state)), nil
}

// RulesFor returns the rules of a run. It returns an error if the caller may not see the run.
func (g Gate) RulesFor(ctx context.Context, ref runtime.RunRef) (*Rules, error) {
	state, owner, err := g.Views.PackFor(ctx, ref)
	if err != nil {
		return nil, err
	}
	return NewRules(owner.XPawl().SensitiveNames().InRun(state)), nil
}

// Live reports whether a call may receive the output of a run while the output is being written. Pieces
// of a message cannot be redacted one by one, so they are sent unredacted or not at all.
func (g Gate) Live(ctx context.Context, ref runtime.RunRef) bool {
	if !Hidden(ref.Call) {
		return true
	}
	rules, err := g.RulesFor(ctx, ref)
	return err == nil && (rules == nil || !rules.messages)
}

// Hide replaces a run's sensitive values in the answer to a call that reads the run.
func (g Gate) Hide(ctx context.Context, call runtime.Call, state *machine.State, out proto.Message) error {
	if !Hidden(call) {
		return nil
	}
	rules, err := g.Rules(ctx, call.Namespace, state)
	rules.Apply(out)
	return err
}

// HideSeen does the same as Hide for a run that the caller may see. The caller does not need the right
// to read the run.
func (g Gate) HideSeen(ctx context.Context, ref runtime.RunRef, out proto.Message) error {
	if !Hidden(ref.Call) {
		return nil
	}
	rules, err := g.RulesFor(ctx, ref)
	rules.Apply(out)
	return err
}

// HideAnswer does the same as Hide for the answer to a call that changes a run. A worker, or a caller that may change
// runs or execute turns, receives the sensitive values, because it needs them to render the turn.
func (g Gate) HideAnswer(ctx context.Context, call runtime.Call, state *machine.State, out any) error {
	told, ok := out.(proto.Message)
	if !ok || state == nil || call.Worker != nil || call.Principal.Scopes.Any(runtime.ScopeRunsWrite|runtime.ScopeWork) {
		return nil
	}
	return g.Hide(ctx, call, state, told)
}

// CheckUnredacted returns an error if the caller may not read all values of a run. It is used for answers that
// cannot be redacted, for example a file, a comparison of values, or a copy under the rules of another
// pack. other is a second run of the same namespace, or "".
func (g Gate) CheckUnredacted(ctx context.Context, ref runtime.RunRef, other string) error {
	if !Hidden(ref.Call) {
		return nil
	}
	for _, run := range []string{ref.RunID, other} {
		if run == "" {
			continue
		}
		rules, err := g.RulesFor(ctx, runtime.RunRef{Call: ref.Call, RunID: run})
		if err != nil {
			return err
		}
		if rules != nil {
			return &machine.Error{
				Code: machine.CodePermissionDenied, Reason: "SENSITIVE_VALUES", Field: "run_id", Allowed: runtime.ScopeValuesSensitive.Names(),
				Message: "the pack of the run calls values sensitive, and this tells all of them: it needs the scope values:sensitive",
			}
		}
	}
	return nil
}
