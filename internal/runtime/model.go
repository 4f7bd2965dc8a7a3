package runtime

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/conversation"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/validate"
)

// prepare completes a command with stored data. It resolves the references in a model call to the
// messages that they refer to, and adds the approval data to commands about tool calls.
func (t *execution) prepare(ctx context.Context) (err error) {
	if t.op.command, err = conversation.Resolve(ctx, t.e.past, t.op.key, t.state, t.op.command); err == nil {
		scene := approval.RunContext{Past: t.e.past, Key: t.op.key, State: t.state, Program: t.program, By: t.op.principal}
		t.op.command, err = scene.Prepare(ctx, t.op.command)
	}
	return err
}

// stampModel stamps the execution and the operator's prices into a request to a model, or into its
// answer.
func (t *execution) stampModel(c machine.Command, b *validate.Body) machine.Command {
	switch cmd := c.(type) {
	case machine.RequestModel:
		cmd.Assigned = t.assignmentOf(&cmd.TurnSeq, &cmd.Attempt)
		cmd.Denied = t.roundDenied(&cmd)
		cmd.Bound = t.e.cfg.Prices.StampOf(cmd.Model.Model, t.program.Graph, cmd.Bound)
		return cmd
	case machine.UpdateModelCall:
		cmd.Assigned = t.assignmentOf(&cmd.TurnSeq, &cmd.TurnAttempt)
		return cmd
	case machine.AnswerModel:
		cmd.Assigned = t.assignmentOf(&cmd.TurnSeq, &cmd.TurnAttempt)
		b.ModelAnswer(&cmd)
		cmd.Usage = t.e.cfg.Prices.Stamp(t.program.Graph, cmd.Usage)
		cmd.Violation = t.answerViolation(&cmd)
		t.op.implicitID, t.input.ID = true, validate.AnswerID(&cmd)
		return cmd
	}
	return c
}

// assignmentOf sets the execution of a request and returns the assignment of the request. For a worker
// this is the worker and the delivery of its lease. For a caller it is the delivery number of the
// token. It returns nil if the turn was not sent to a worker or caller.
func (t *execution) assignmentOf(seq *uint64, attempt *int) *machine.Assignment {
	if t.resolveExecution(seq, attempt); t.grant.Token == "" {
		return nil
	}
	return &machine.Assignment{Worker: t.grant.Worker, Delivery: t.grant.Delivery, At: t.grant.At}
}
