package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// callOff cancels the task of a delegation that is no longer needed. It removes the row when the agent
// has confirmed the cancellation, or when the agent has been unreachable for too long. In the latter
// case the agent's own limits end the task.
func (o *Outbox) callOff(ctx context.Context, row machine.OutboxRow) {
	since, pause := time.Now(), time.Duration(0)
	for ctx.Err() == nil {
		err := o.cancel(ctx, row)
		fault, ok := errors.AsType[*machine.AgentFault](err)
		done := err == nil || ok && (fault.Kind != machine.AgentUnreachable || time.Since(since) >= o.cfg.GiveUp)
		if machine.IsDeleted(err) || machine.IsErased(err) {
			// The row was removed together with the run or its values, so there is nothing to do.
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

// cancel cancels the agent's task. If the message was never sent, there is no task
// ([machine.ErrNoStep]). If the message may have arrived but the id of the task is unknown, cancel
// sends the same message again in order to get the id. It does so only if a repeat is idempotent for
// the agent and if the message may be sent now.
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
		// A message that is sent only to get the id could begin the task. The agent's own limits end
		// the task.
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
