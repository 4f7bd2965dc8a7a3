package query

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/history"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// ModelView is a model call with its complete request and answer.
type ModelView struct {
	// Run is the newest state of the run.
	Run  *machine.State
	Step history.StepView
	// System, Tools (JSON) and Parameters (JSON) are the texts of the request. A text is "" if the
	// request does not have it.
	System, Tools, Parameters string
	// Messages are all messages of the request, the oldest first.
	Messages []machine.Message
}

// ShowModel returns a model call of any visit. The result depends only on the records of the run.
//
// Errors: NOT_FOUND STEP_NOT_FOUND, FAILED_PRECONDITION STEP_KIND.
func (r *Service) ShowModel(ctx context.Context, ref runtime.RunRef, step uint32) (ModelView, error) {
	key, err := r.cfg.Engine.FindReadable(ref)
	if err != nil {
		return ModelView{}, err
	}
	s, err := r.cfg.Engine.StateOf(ctx, key, 0)
	if err == nil {
		err = s.CheckNotErased()
	}
	if err != nil {
		return ModelView{}, err
	}
	found, err := r.cfg.Past.FindStep(ctx, key, s, step)
	if err != nil {
		return ModelView{}, err
	}
	if found.Model == nil {
		return ModelView{}, &machine.Error{
			Code: machine.CodeFailedPrecondition, Reason: "STEP_KIND", Field: "step", Message: fmt.Sprintf("step %d calls the tool %q, no model", step, found.Tool),
		}
	}
	view := ModelView{Run: s}
	if view.Step, err = r.cfg.Past.Step(ctx, key, found); err != nil {
		return view, err
	}
	request := view.Step.Request
	for _, text := range []struct {
		from machine.ModelText
		to   *string
	}{{request.System, &view.System}, {request.Tools, &view.Tools}, {request.Parameters, &view.Parameters}} {
		if *text.to, err = r.cfg.Past.Text(ctx, key, text.from); err != nil {
			return view, err
		}
	}
	view.Messages, err = r.cfg.Past.Messages(ctx, key, request)
	return view, err
}
