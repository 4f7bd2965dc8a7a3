package runtime

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/conversation"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// prepare finds what is told of calls of models refers to, and what is decided about calls.
func (t *transit) prepare(ctx context.Context) (err error) {
	if t.c.command, err = conversation.Prepare(ctx, t.e.past, t.c.key, t.state, t.c.command); err == nil {
		scene := approval.Scene{Past: t.e.past, Key: t.c.key, State: t.state, Program: t.program, By: t.c.principal}
		t.c.command, err = scene.Prepare(ctx, t.c.command)
	}
	return err
}

// stampModel stamps what is asked of a model, and what came of it, with the execution.
func (t *transit) stampModel(c machine.Command, b *validate.Body) machine.Command {
	switch cmd := c.(type) {
	case machine.RequestModel:
		cmd.Assigned = t.executing(&cmd.TurnSeq, &cmd.Attempt)
		cmd.Bound = t.e.cfg.Prices.StampOf(cmd.Model.Model, t.program.Graph, cmd.Bound)
		return cmd
	case machine.NoteModel:
		cmd.Assigned = t.executing(&cmd.TurnSeq, &cmd.TurnAttempt)
		return cmd
	case machine.AnswerModel:
		cmd.Assigned = t.executing(&cmd.TurnSeq, &cmd.TurnAttempt)
		b.ModelAnswer(&cmd)
		cmd.Usage = t.e.cfg.Prices.Stamp(t.program.Graph, cmd.Usage)
		t.c.natural, t.input.ID = true, validate.AnswerID(&cmd)
		return cmd
	}
	return c
}

// executing fills in the execution of a request and says who it is: a lease's delivery, the
// number of a caller's token; nil: nobody was given the turn.
func (t *transit) executing(seq *uint64, attempt *int) *machine.Assignment {
	if t.execution(seq, attempt); t.asked.Word == "" {
		return nil
	}
	return &machine.Assignment{Worker: t.asked.Worker, Delivery: t.asked.Delivery, At: t.asked.At}
}
