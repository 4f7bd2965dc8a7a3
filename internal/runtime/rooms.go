package runtime

import (
	"errors"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// What the rooms of the runtime need of the way, beside its inputs. Each declares the
// part that it calls as an interface of its own; the way imports none of them.

// Admit resolves a call's namespace for a caller that has one of the scopes.
//
// Errors: NOT_FOUND NAMESPACE_NOT_FOUND, PERMISSION_DENIED SCOPE_MISSING.
func (e *Engine) Admit(call Call, scopes Scopes) (uint32, error) {
	ns, err := e.Namespace(call.Namespace)
	if err != nil {
		return 0, err
	}
	return ns, Denied(policy.Require(call.Principal, scopes))
}

// FindReadable is [Engine.Find] for what only reads.
func (e *Engine) FindReadable(ref RunRef) (RunKey, error) {
	key, err := e.Find(ref)
	if err != nil {
		return key, err
	}
	return key, Denied(policy.Require(ref.Principal, policy.RunsRead|policy.RunsWrite))
}

// NamespaceNumbers lists the numbers of the configured namespaces, in no order.
func (e *Engine) NamespaceNumbers() []uint32 {
	return slices.Collect(maps.Values(e.cfg.Namespaces))
}

// Inside calls do while inputs are taken: a drain waits for it, and an outcome of do
// that is unknown ([machine.ErrIndeterminate]) is fatal like that of any commit.
func (e *Engine) Inside(do func() error) error {
	if err := e.gate.enter(); err != nil {
		return err
	}
	defer e.gate.leave()
	err := do()
	if errors.Is(err, machine.ErrIndeterminate) {
		e.gate.fail()
		return commitUnknown()
	}
	return err
}

// Past reads what was; safe for concurrent use.
func (e *Engine) Past() *history.Reader { return e.past }
