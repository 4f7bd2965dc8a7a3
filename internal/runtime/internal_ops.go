package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime/budget"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/packcache"
	"github.com/pawl-dev/pawl/internal/runtime/render"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// This file has the operations that the engine offers to the packages around it. Each of these packages
// declares the part that it calls as an interface of its own. The engine imports none of these
// packages.

// ApplyInternal executes an input that the engine itself makes. It does not ask the policy. Errors: those of [Engine.Apply].
func (e *Engine) ApplyInternal(ctx context.Context, key RunKey, command machine.Command) (Answer, error) {
	return e.apply(ctx, &operation{key: key, principal: Principal{Subject: OwnName}, internal: true, command: command})
}

// WithRunLock calls do while it holds the run's execution slot, so that no input of the run is executed at the
// same time. do must not apply an input of the same run. Errors: the error of do, or QUEUE_FULL.
func (e *Engine) WithRunLock(key RunKey, do func() error) error {
	entry, err := e.runTable.acquireWait(key)
	if err != nil {
		return err
	}
	defer e.runTable.release(entry, entry.state, entry.program)
	return do()
}

// Evict calls do while it holds the run's execution slot, like [Engine.WithRunLock]. Afterwards no state of the
// run is cached.
func (e *Engine) Evict(key RunKey, do func() error) error {
	entry, err := e.runTable.acquireWait(key)
	if err != nil {
		return err
	}
	defer e.runTable.release(entry, nil, nil)
	return do()
}

// Current returns the newest state of a run and its program.
func (e *Engine) Current(ctx context.Context, key RunKey) (*machine.State, *packcache.Program, error) {
	s, err := e.Head(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	prog, err := e.programs.Of(ctx, key.Namespace, s)
	return s, prog, err
}

// Programs returns the compiled packs. Safe for concurrent use.
func (e *Engine) Programs() *packcache.Cache { return e.programs }

// Turns returns the renderer of turns. Safe for concurrent use.
func (e *Engine) Turns() *render.Renderer { return e.shown }

// Terms returns the limits and defaults that apply when a run begins. The caller must not change the
// returned value.
func (e *Engine) Terms() *validate.Terms { return &e.terms }

// Admit returns the number of a call's namespace if the caller has one of the scopes.
//
// Errors: NOT_FOUND NAMESPACE_NOT_FOUND, PERMISSION_DENIED SCOPE_MISSING.
func (e *Engine) Admit(call Call, scopes Scopes) (uint32, error) {
	ns, err := e.within(call)
	if err != nil {
		return 0, err
	}
	return ns, Denied(policy.Require(call.Principal, scopes))
}

// FindReadable does the same as [Engine.Find], and also checks that the caller has a scope for reading.
func (e *Engine) FindReadable(ref RunRef) (RunKey, error) {
	key, err := e.Find(ref)
	if err != nil {
		return key, err
	}
	return key, Denied(policy.Require(ref.Principal, policy.RunsRead|policy.RunsWrite))
}

// NamespaceNumbers lists the numbers of the configured namespaces. Their order is not defined.
func (e *Engine) NamespaceNumbers() []uint32 {
	return slices.Collect(maps.Values(e.cfg.Namespaces))
}

// Inside calls do and counts the call as an input in flight, so that a drain waits for it. If do
// returns [machine.ErrIndeterminate], the engine fails in the same way as after a commit with an
// unknown outcome.
func (e *Engine) Inside(do func() error) error {
	if err := e.limiter.Acquire(0); err != nil {
		return err
	}
	defer e.limiter.Release()
	err := do()
	if errors.Is(err, machine.ErrIndeterminate) {
		e.limiter.Fail()
		return commitUnknown()
	}
	return err
}

// Accounts lists the operator's accounts of a namespace, as [budget.Ledger.List] does.
func (e *Engine) Accounts(call Call, prefix, after string, most int) ([]budget.View, bool, error) {
	ns, err := e.Admit(call, policy.RunsRead)
	if err != nil {
		return nil, false, err
	}
	views, more := e.cfg.Accounts.List(ns, prefix, after, most, e.cfg.Clock.Now())
	return views, more, nil
}

// AccountFigures returns the figures of the accounts of all namespaces, for metrics.
func (e *Engine) AccountFigures() []budget.Figure { return e.cfg.Accounts.Figures(e.cfg.Clock.Now()) }

// Past returns the reader of past states and records. Safe for concurrent use.
func (e *Engine) Past() *history.Reader { return e.past }
