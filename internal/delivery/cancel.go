package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// callOff cancels the task of a delegation that is no longer wanted. It removes the row when the agent has
// confirmed, or has been unreachable for too long: then the agent's own limits end the task.
func (o *Outbox) callOff(ctx context.Context, row machine.OutboxRow) {
	since, pause := time.Now(), time.Duration(0)
	for ctx.Err() == nil {
		err := o.cancel(ctx, row)
		fault, ok := errors.AsType[*machine.AgentFault](err)
		done := err == nil || ok && (fault.Kind != machine.AgentUnreachable || time.Since(since) >= o.cfg.GiveUp)
		if machine.IsDeleted(err) || machine.IsErased(err) {
			// The row was removed together with the run or its values.
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

// cancel cancels the agent's task. A message that was never sent has no task ([machine.ErrNoStep]). If the id
// of the task is unknown, the message may have arrived. Then cancel sends the same message again to learn the
// id, but only to an agent for which a repeat is idempotent, and only if the message could be sent now.
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
		// Sending the message to learn the id could begin the task. The agent's own limits end it.
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
