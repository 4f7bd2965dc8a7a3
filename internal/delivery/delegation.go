package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// delegation is one attempt of a step that a remote agent executes over A2A. It sends the message of
// the step and then follows the agent's task until the task has ended. It reconnects after broken
// connections.
type delegation struct {
	o       *Outbox
	row     machine.OutboxRow
	changed <-chan struct{}
	// since is the time of the first of the failed attempts in a row. It is zero after an attempt without an error. pause
	// is the length of the last pause between two attempts. It grows until the task changes, or until its stream has been
	// open for its maximum time.
	since time.Time
	pause time.Duration
	// hasTask means that the agent has already created a task for the delegation.
	hasTask bool
	// provenUnsent means that an error proved that the message did not arrive. The journal still says that
	// the message is about to be sent, until withdraw records the correction.
	provenUnsent bool
	// mayBeSent means that the message may have been sent, but it is not known whether it arrived.
	mayBeSent bool
}

var (
	// errOver means that a delegation was answered or is no longer needed.
	errOver = errors.New("the delegation is over")
	// errLook means that the delegation must be read from the store again, because it may have changed.
	errLook = errors.New("look again")
)

// run sends the delegation and follows its task until the step is answered or ctx ends. After a failure it tries
// again, until the agent was unreachable for GiveUp.
func (d *delegation) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := d.advance(ctx)
		switch {
		case errors.Is(err, errOver), errors.Is(err, machine.ErrNoStep):
			return
		case errors.Is(err, errLook): // neither a failure nor a success
		case err != nil && ctx.Err() == nil:
			if d.failed(ctx, err) {
				return
			}
		default:
			d.since = time.Time{}
		}
	}
}

// advance does the next action of the delegation. It sends the step's message, sends the caller's answer to a question,
// or follows the task until the task asks a question or ends. While the run is paused, it waits instead of sending. If
// delegations are nested too deep, it makes the step fail.
func (d *delegation) advance(ctx context.Context) error {
	del, err := d.o.cfg.Delegations.Delegation(ctx, d.row)
	if err != nil {
		return err
	}
	d.hasTask, d.mayBeSent = del.Remote.TaskID != "", del.Remote.MayBeSent() && !d.provenUnsent
	if del.Depth >= machine.MaxDepth {
		outcome := failure("MAX_DEPTH", fmt.Sprintf("delegations nest at most %d deep", machine.MaxDepth), true)
		outcome.Metered = true
		return d.resolve(ctx, outcome)
	}
	if del.Paused && (!d.hasTask || del.Remote.Answer != 0) {
		return d.wait(ctx)
	}
	peer, card, err := d.o.cfg.Directory.Peer(ctx, &del)
	if err != nil {
		return err
	}
	var task machine.AgentTask
	switch {
	case !d.hasTask:
		task, err = d.sendMessage(ctx, peer, &del, card)
	case del.Remote.Answer != 0:
		task, err = d.answer(ctx, peer, &del)
	default:
		task, err = d.awaitTask(ctx, peer, &del)
	}
	if err != nil {
		return err
	}
	return d.handleTask(ctx, &del, card, task)
}

// wait blocks until the delegation may have changed in the store, and then returns errLook. It is
// called while the run is paused.
func (d *delegation) wait(ctx context.Context) error {
	select {
	case <-d.changed:
	case <-ctx.Done():
	}
	return errLook
}

// sendMessage sends the step's message to the agent. Before that, it records in the journal that the message is
// about to be sent. If the run was paused, or the delegation was cancelled or its approval has expired,
// sendMessage does not send the message.
//
// An agent that does not recognize repeated messages gets the message only once, unless the pack permits a repeat. If it
// is then unknown whether the message arrived, the tool's on_unknown in the pack decides. The journal records before the
// first send whether the agent recognizes repeats. The agent's current configuration alone is not enough, because another
// agent may have received the message.
func (d *delegation) sendMessage(ctx context.Context, peer Peer, del *machine.Delegation, card string) (machine.AgentTask, error) {
	message, err := messageOf(peer, del)
	if err != nil {
		return machine.AgentTask{}, err
	}
	if d.provenUnsent {
		return machine.AgentTask{}, cmp.Or(d.withdraw(ctx), errLook)
	}
	repeated := del.Remote.MayBeSent()
	once := !mayRepeat(peer, del) || repeated && del.Remote.Sent != machine.SentRepeatable && del.OnUnknown != machine.Retry
	lost := fmt.Sprintf("it is unknown whether the agent received message %s, and a second one would repeat the work", message.ID)
	switch {
	case repeated && once:
		return machine.AgentTask{}, d.resolve(ctx, unknownOutcome("AGENT_UNREACHABLE", lost))
	case !repeated:
		if err := d.announce(ctx, del, machine.Remote{CardURL: card, Sent: sending(peer)}); err != nil {
			return machine.AgentTask{}, err
		}
	}
	task, err := peer.Send(ctx, del, message)
	fault, ok := errors.AsType[*machine.AgentFault](err)
	switch {
	case err == nil || ctx.Err() != nil:
		return task, err
	case !repeated && !mayHaveArrived(err):
		d.mayBeSent = false
		if fault.Unsent {
			d.provenUnsent = true
			return task, errors.Join(err, d.withdraw(ctx))
		}
		return task, err
	case !once || ok && fault.Kind != machine.AgentUnreachable:
		return task, err
	}
	return task, d.resolve(ctx, unknownOutcome("AGENT_UNREACHABLE", lost+": "+err.Error()))
}

// sending returns the value that the journal records before a message is sent: whether this agent
// recognizes a repeated message.
func sending(peer Peer) machine.Sending {
	if peer.Idempotent() {
		return machine.SentRepeatable
	}
	return machine.SentOnce
}

// announce records in the journal that the step's message is about to be sent. It returns errLook if
// the message may not be sent.
func (d *delegation) announce(ctx context.Context, del *machine.Delegation, remote machine.Remote) error {
	ok, err := d.o.cfg.Delegations.Announce(ctx, d.row, remote)
	if err != nil {
		return err
	}
	if !ok {
		d.pause = d.o.sleep(ctx, d.pause)
		return errLook
	}
	d.mayBeSent, del.Remote = true, remote
	return nil
}

// withdraw records in the journal that the message did not arrive, although an earlier record says that
// it is about to be sent.
func (d *delegation) withdraw(ctx context.Context) error {
	err := d.o.cfg.Delegations.NoteDelegation(ctx, d.row, machine.Remote{Sent: machine.SentNot}, nil)
	if err == nil {
		d.provenUnsent = false
	}
	return err
}

// mayHaveArrived reports whether the agent may have received the message although there was an error.
// This is possible if the connection broke after the message was sent, or if the answer could not be
// read.
func mayHaveArrived(err error) bool {
	fault, ok := errors.AsType[*machine.AgentFault](err)
	switch {
	case !ok:
		return err != nil
	case fault.Kind == machine.AgentUnreachable:
		return !fault.Unsent
	}
	return fault.Code == resultTooLarge || fault.Code == brokeProtocol
}

// mayRepeat reports whether a message may be sent to the agent twice. This is so if the agent
// recognizes repeated messages or the pack permits repeats.
func mayRepeat(peer Peer, del *machine.Delegation) bool {
	return peer.Idempotent() || del.OnUnknown == machine.Retry
}

// answer sends the caller's answer to the agent's question. If the author of the answer had no right to
// give it, the agent refuses it. The question then stays open with the refusal, and another principal
// may answer it.
//
// An agent that does not recognize repeated messages gets the answer only once, unless the pack permits a repeat. answer
// then first records that no answer is left to send, and then sends it. If the answer does not arrive, the agent's task
// still asks the question, and awaitTask reports the question again.
func (d *delegation) answer(ctx context.Context, peer Peer, del *machine.Delegation) (machine.AgentTask, error) {
	message := answerOf(del)
	if !mayRepeat(peer, del) {
		if _, err := peer.Get(ctx, del.Remote.TaskID); err != nil {
			return machine.AgentTask{}, err
		}
		taken := del.Remote
		taken.Answer = 0
		if err := d.recordTask(ctx, taken, del.Remote, nil); err != nil {
			return machine.AgentTask{}, err
		}
		del.Remote = taken
	}
	task, err := peer.Send(ctx, del, message)
	fault, ok := errors.AsType[*machine.AgentFault](err)
	if ok && fault.Kind == machine.AgentRefuses {
		// An agent also refuses an answer if another client has already answered. If the task has ended
		// because of that, this end is the result.
		if now, gone := peer.Get(ctx, del.Remote.TaskID); gone == nil && now.State.Ended() {
			return now, nil
		}
	}
	if !ok || fault.Kind != machine.AgentDenies {
		return task, err
	}
	d.o.cfg.Log.WarnContext(ctx, "agent refused answer", "run_id", d.row.RunID, "step", d.row.Step, "principal", del.Answerer.Name, "error", err)
	task, err = peer.Get(ctx, del.Remote.TaskID)
	if err == nil && !task.State.Ended() {
		refusal := fmt.Sprintf("The answer of %s was not taken: %s", del.Answerer.Name, clip(fault.Message, maxMessage))
		task.Message = append(task.Message, machine.Part{Kind: machine.PartText, Text: refusal})
	}
	return task, err
}

// awaitTask waits until the task begins or ceases to ask a question, until it has ended, or until the delegation may have
// changed in the store (errLook). If the stream of the task breaks or reaches its maximum time, awaitTask reads the task
// with a unary call and returns it, even if it has not changed. If the agent no longer knows the task, the step's outcome
// is unknown.
func (d *delegation) awaitTask(ctx context.Context, peer Peer, del *machine.Delegation) (machine.AgentTask, error) {
	listen, stop := context.WithTimeout(ctx, d.o.cfg.Follow)
	defer stop()
	stopped := d.stopOnNews(listen, stop)
	var moved *machine.AgentTask
	err := peer.Follow(listen, del.Remote.TaskID, func(task machine.AgentTask) bool {
		if task.State.Asking() == del.Remote.Asking && !task.State.Ended() {
			return true
		}
		moved = &task
		return false
	})
	interrupted := listen.Err()
	stop()
	<-stopped
	switch {
	case moved != nil:
		return *moved, nil
	case errors.Is(interrupted, context.DeadlineExceeded):
		// The stream was open for its maximum time. The connection may be broken, so the task is read at once. The next
		// pause is the shortest one.
		d.pause = 0
	case interrupted != nil:
		return machine.AgentTask{}, errLook
	case err != nil:
		d.o.cfg.Log.DebugContext(ctx, "delegation stream ended, reconnecting", "run_id", d.row.RunID, "step", d.row.Step, "error", err)
	}
	task, err := peer.Get(ctx, del.Remote.TaskID)
	if isFault(err, machine.AgentNoTask) {
		return task, d.resolve(ctx, unknownOutcome("AGENT_NO_TASK", "the agent no longer knows its task "+del.Remote.TaskID))
	}
	if err == nil && task.State.Asking() == del.Remote.Asking && !task.State.Ended() {
		// The task has not changed, so its stream is opened again after a pause.
		d.pause = d.o.sleep(ctx, d.pause)
	}
	return task, err
}

// stopOnNews starts a goroutine that calls stop, which ends the stream of the agent's task, when the delegation changes
// in this sidecar. The returned channel is closed when the goroutine has ended.
func (d *delegation) stopOnNews(listen context.Context, stop context.CancelFunc) <-chan struct{} {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-d.changed:
			stop()
		case <-listen.Done():
		}
	}()
	return stopped
}

// handleTask records in the journal what the agent reports about the task: the id of the task, a question, or the
// task's end.
func (d *delegation) handleTask(ctx context.Context, del *machine.Delegation, card string, task machine.AgentTask) error {
	known := del.Remote
	task.Usage = assumedUsage(&task, del.Lease)
	if task.ID == "" && task.State == machine.AgentCompleted {
		// The agent has answered with a message instead of a task. The message ends the delegation. If an earlier answer
		// of the agent began a task, the outcome contains its id.
		task.ID = known.TaskID
		return d.resolve(ctx, outcomeOf(task, card, del.Keyed))
	}
	if known.TaskID != "" && task.ID != known.TaskID {
		return d.resolve(ctx, doneOutcome(brokeProtocol, "the agent changed its task from "+known.TaskID+" to "+task.ID))
	}
	if task.State == machine.AgentCompleted || task.State.Ended() && known.TaskID != "" {
		return d.resolve(ctx, outcomeOf(task, card, del.Keyed))
	}
	remote := machine.Remote{TaskID: task.ID, ContextID: task.ContextID, CardURL: card, Asking: task.State.Asking()}
	if err := d.recordTask(ctx, remote, known, task.Message); err != nil || !task.State.Ended() {
		return err
	}
	return d.resolve(ctx, outcomeOf(task, card, del.Keyed))
}

// recordTask records the id of the task and its question in the journal if they have changed. It also records the id of a
// task that has already failed. If the run refuses the record for good, the step fails.
func (d *delegation) recordTask(ctx context.Context, remote, known machine.Remote, said []machine.Part) error {
	if remote == known {
		return nil
	}
	var question []machine.Part
	if remote.Asking != machine.AwaitNothing {
		question = said
	}
	err := d.o.cfg.Delegations.NoteDelegation(ctx, d.row, remote, question)
	if refusal := lasting(err); refusal != nil {
		return d.resolve(ctx, doneOutcome(refusal.Reason, refusal.Message))
	}
	d.pause = 0
	return err
}

// resolve records the outcome of the step in the journal. If the run refuses the agent's result, for example because of
// its size, resolve records that the step has failed. It returns errOver when an outcome is recorded.
func (d *delegation) resolve(ctx context.Context, outcome machine.Outcome) error {
	err := d.o.cfg.Delegations.ResolveDelegation(ctx, d.row, outcome)
	if refusal := lasting(err); refusal != nil && outcome.OK {
		err = d.o.cfg.Delegations.ResolveDelegation(ctx, d.row, doneOutcome(refusal.Reason, refusal.Message))
	}
	if err != nil {
		return err
	}
	return errOver
}

// lasting returns the runtime's error in err if the same input would fail again in the same way. For a
// temporary error, for example a full queue, and for any other error it returns nil.
func lasting(err error) *machine.Error {
	refusal, ok := errors.AsType[*machine.Error](err)
	if !ok || refusal.Code == machine.CodeUnavailable {
		return nil
	}
	switch refusal.Reason {
	case "QUEUE_FULL", "OVERLOADED", "DISK_LOW":
		return nil
	}
	return refusal
}

// failed handles an error of an attempt. After an error that may be temporary, it waits. After any
// other error, or if the agent is unreachable for longer than GiveUp, it makes the step fail. over
// reports whether the delegation is over.
func (d *delegation) failed(ctx context.Context, cause error) (over bool) {
	fault, ok := errors.AsType[*machine.AgentFault](cause)
	if d.since.IsZero() {
		d.since = time.Now()
	}
	lasting := ok && fault.Kind != machine.AgentUnreachable
	if !lasting && ok && time.Since(d.since) >= d.o.cfg.GiveUp {
		lasting = true
	}
	if lasting {
		outcome := failure(fault.Code, fault.Message, true)
		outcome.Unknown = d.hasTask || d.mayBeSent
		// A message that the agent refused or did not receive consumes no budget. Metered means that
		// the usage, here zero, is complete.
		outcome.Metered = !d.hasTask && (fault.Code == "AGENT_REFUSED" || !d.mayBeSent)
		err := d.resolve(ctx, outcome)
		if errors.Is(err, errOver) || errors.Is(err, machine.ErrNoStep) {
			return true
		}
		cause = err
	}
	d.o.cfg.Log.WarnContext(ctx, "delegation failed, retrying", "run_id", d.row.RunID, "step", d.row.Step, "attempt", d.row.Attempt, "error", cause)
	d.pause = d.o.sleep(ctx, d.pause)
	return false
}

// sleep waits twice as long as the previous pause (before), between Pause and MaxPause. It returns the
// length of the pause.
func (o *Outbox) sleep(ctx context.Context, before time.Duration) time.Duration {
	pause := min(max(2*before, o.cfg.Pause), o.cfg.MaxPause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return pause
}

func isFault(err error, kind machine.AgentFaultKind) bool {
	fault, ok := errors.AsType[*machine.AgentFault](err)
	return ok && fault.Kind == kind
}
