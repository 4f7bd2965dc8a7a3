package runtime

import (
	"context"

	"github.com/pawl-dev/pawl/internal/runtime/approval"
	"github.com/pawl-dev/pawl/internal/runtime/conversation"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// withSteps adds the recorded answers of the requested steps to an answer. If the machine reported an
// error although the input was committed, withSteps returns this error.
func (t *execution) withSteps(ctx context.Context, answer Answer, result machine.Result) (Answer, error) {
	key := RunKey{Namespace: t.op.key.Namespace, ID: answer.RunID}
	steps, err := t.e.past.Answers(ctx, key, result.Steps)
	if err != nil {
		return Answer{}, err
	}
	approval.Withhold(answer.State, t.input.Command, steps)
	answer.Steps = steps
	if cmd, ok := t.input.Command.(machine.RequestModel); ok {
		if answer.IncludedMessages, err = conversation.IncludedMessages(ctx, t.e.past, key, cmd.Model); err != nil {
			return Answer{}, err
		}
	}
	return answer, result.Refused
}

// count counts the step requests that were made under the token of the request, so that the default
// keys of the next requests continue after them. After a turn was released, the count starts at 1
// again, even under the same token, as in a repeated execution.
func (t *execution) count() {
	if t.grant.Token == "" {
		return
	}
	switch cmd := t.input.Command.(type) {
	case machine.RequestSteps:
		if t.op.holder != nil {
			t.op.holder.Counted(t.grant.Token, len(cmd.Requests))
			return
		}
		t.e.runTable.counted(t.op.key, t.grant.Token, t.grant.Requests+len(cmd.Requests))
	case machine.SuspendTurn:
		if t.op.holder == nil {
			t.e.runTable.counted(t.op.key, t.grant.Token, 0)
		}
	}
}
