package runtime

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/program"
	"github.com/pawl-dev/pawl/internal/runtime/render"
	"github.com/pawl-dev/pawl/internal/runtime/request"
)

// What rooms may ask of the way. Each room declares the part that it calls as an
// interface of its own; the way imports no room.

// enginePrincipal causes what nobody asked for: timers, lost leases, answers of agents.
const enginePrincipal = "pawl"

// Own makes an input of the engine's own: no authority is asked. Errors as of
// [Engine.Apply].
func (e *Engine) Own(ctx context.Context, key RunKey, command machine.Command) (Answer, error) {
	return e.apply(ctx, &change{key: key, principal: Principal{Name: enginePrincipal}, engine: true, command: command})
}

// InTurn calls do in the run's own turn, after the inputs that came before and before
// those that come after it. do must not make an input of the same run. Error: do's, or
// QUEUE_FULL.
func (e *Engine) InTurn(key RunKey, do func() error) error {
	sl, err := e.owner.wait(key)
	if err != nil {
		return err
	}
	defer e.owner.release(sl, sl.state, sl.program)
	return do()
}

// Now returns a run's newest state and its program.
func (e *Engine) Now(ctx context.Context, key RunKey) (*machine.State, *program.Program, error) {
	s, err := e.Head(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	prog, err := e.programs.Of(ctx, key.Namespace, s)
	return s, prog, err
}

// Programs are the compiled packs; safe for concurrent use.
func (e *Engine) Programs() *program.Cache { return e.programs }

// Turns renders turns; safe for concurrent use.
func (e *Engine) Turns() *render.Renderer { return e.shown }

// Terms are those on which runs begin. Read only.
func (e *Engine) Terms() *request.Terms { return &e.terms }
