package runtime

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/conversation"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// prepare finds what is told of calls of models refers to, and what is decided about calls.
func (t *execution) prepare(ctx context.Context) (err error) {
	if t.op.command, err = conversation.Resolve(ctx, t.e.past, t.op.key, t.state, t.op.command); err == nil {
		scene := approval.RunContext{Past: t.e.past, Key: t.op.key, State: t.state, Program: t.program, By: t.op.principal}
		t.op.command, err = scene.Prepare(ctx, t.op.command)
	}
	return err
}

// stampModel stamps what is asked of a model, and what came of it, with the execution.
func (t *execution) stampModel(c machine.Command, b *validate.Body) machine.Command {
	switch cmd := c.(type) {
	case machine.RequestModel:
		cmd.Assigned = t.assignmentOf(&cmd.TurnSeq, &cmd.Attempt)
		cmd.Bound = t.e.cfg.Prices.StampOf(cmd.Model.Model, t.program.Graph, cmd.Bound)
		return cmd
	case machine.UpdateModelCall:
		cmd.Assigned = t.assignmentOf(&cmd.TurnSeq, &cmd.TurnAttempt)
		return cmd
	case machine.AnswerModel:
		cmd.Assigned = t.assignmentOf(&cmd.TurnSeq, &cmd.TurnAttempt)
		b.ModelAnswer(&cmd)
		cmd.Usage = t.e.cfg.Prices.Stamp(t.program.Graph, cmd.Usage)
		t.op.implicitID, t.input.ID = true, validate.AnswerID(&cmd)
		return cmd
	}
	return c
}

// assignmentOf fills in the execution of a request and says who it is: a lease's delivery, the
// number of a caller's token; nil: nobody was given the turn.
func (t *execution) assignmentOf(seq *uint64, attempt *int) *machine.Assignment {
	if t.resolveExecution(seq, attempt); t.grant.Token == "" {
		return nil
	}
	return &machine.Assignment{Worker: t.grant.Worker, Delivery: t.grant.Delivery, At: t.grant.At}
}
