package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// callOff cancels the task that an agent runs for a delegation, because the delegation is no longer needed. After the
// agent has confirmed, callOff removes the cancellation from the outbox (the stored messages that still have to be sent).
// callOff also removes it if there is no task to cancel, if the agent answers with an error, or if the agent is
// unreachable for longer than GiveUp. In the last two cases the agent's own limits end the task.
func (o *Outbox) callOff(ctx context.Context, row machine.OutboxRow) {
	since, pause := time.Now(), time.Duration(0)
	for ctx.Err() == nil {
		err := o.cancel(ctx, row)
		fault, ok := errors.AsType[*machine.AgentFault](err)
		done := err == nil || ok && (fault.Kind != machine.AgentUnreachable || time.Since(since) >= o.cfg.GiveUp)
		if machine.IsDeleted(err) || machine.IsErased(err) {
			// The outbox row was already removed when the run was deleted or its values were erased.
			return
		}
		if errors.Is(err, machine.ErrNoStep) {
			done, err = true, nil
		}
		if done && o.cfg.Delegations.DropOutbox(ctx, row) == nil {
			return
		}
		if err != nil && ctx.Err() == nil {
			o.cfg.Log.WarnContext(ctx, "cancelling delegated task failed, retrying", "run_id", row.RunID, "step", row.Step, "attempt", row.Attempt, "error", err)
		}
		pause = o.sleep(ctx, pause)
	}
}

// cancel cancels the agent's task of a delegation. If the delegation's message was never sent, there is
// no task, and cancel returns [machine.ErrNoStep]. If the id of the task is unknown, cancel sends the
// message again to get it. It does so only if the agent answers a repeated message with the same task.
func (o *Outbox) cancel(ctx context.Context, row machine.OutboxRow) error {
	del, err := o.cfg.Delegations.CalledOff(ctx, row)
	if err != nil {
		return err
	}
	peer, _, err := o.cfg.Directory.Peer(ctx, &del)
	if err != nil {
		return err
	}
	task := del.Remote.TaskID
	if task == "" && (del.Remote.Sent != machine.SentRepeatable || !peer.Idempotent()) {
		// The id of the task is unknown. A repeated message would return it, but could also start the
		// work a second time, so nothing is sent. The agent's own limits end the task.
		return nil
	}
	if task == "" {
		message, err := messageOf(peer, &del)
		if err != nil {
			return err
		}
		told, err := peer.Send(ctx, &del, message)
		if err != nil {
			return err
		}
		task = told.ID
	}
	err = peer.Cancel(ctx, task)
	if isFault(err, machine.AgentNoTask) {
		return nil
	}
	return err
}
