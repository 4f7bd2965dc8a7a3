package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// delegation is one attempt of a step that an agent executes. It sends the message of the step and then
// follows the agent's task until the task has ended. It continues after broken connections.
type delegation struct {
	o    *Outbox
	row  machine.OutboxRow
	news <-chan struct{}
	// since is the time when the agent became unreachable. It is zero while the agent is reachable.
	// pause is the length of the last pause. It grows until the task changes.
	since time.Time
	pause time.Duration
	// hasTask means that the agent has a task for the delegation.
	hasTask bool
	// unsent means that this process announced the message in the journal and that the message
	// certainly did not arrive. The journal does not contain the latter yet.
	unsent bool
	// doubt means that the message may have been sent but it is unknown whether it arrived.
	doubt bool
}

var (
	// errOver means that a delegation was answered or is no longer needed.
	errOver = errors.New("the delegation is over")
	// errLook means that the delegation may have changed and must be read again.
	errLook = errors.New("look again")
)

func (d *delegation) run(ctx context.Context) {
	for ctx.Err() == nil {
		err := d.advance(ctx)
		switch {
		case errors.Is(err, errOver), errors.Is(err, machine.ErrNoStep):
			return
		case errors.Is(err, errLook):
		case err != nil && ctx.Err() == nil:
			if d.failed(ctx, err) {
				return
			}
		default:
			d.since = time.Time{}
		}
	}
}

// advance does the next action. It sends the message or the caller's answer, or it follows the task
// until the task asks a question or ends.
func (d *delegation) advance(ctx context.Context) error {
	del, err := d.o.cfg.Delegations.Delegation(ctx, d.row)
	if err != nil {
		return err
	}
	d.hasTask, d.doubt = del.Remote.TaskID != "", del.Remote.MayBeSent() && !d.unsent
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
		task, err = d.ask(ctx, peer, &del, card)
	case del.Remote.Answer != 0:
		task, err = d.answer(ctx, peer, &del)
	default:
		task, err = d.follow(ctx, peer, &del)
	}
	if err != nil {
		return err
	}
	return d.handleTask(ctx, &del, card, task)
}

// wait waits until the delegation may have changed. It is used while the run is paused.
func (d *delegation) wait(ctx context.Context) error {
	select {
	case <-d.news:
	case <-ctx.Done():
	}
	return errLook
}

// ask sends the step's message to the agent. The journal first records that the message is about to be
// sent. If a cancellation, a pause or the end of an approval was recorded before, the message is not
// sent. If the agent's sends are not idempotent, the agent gets the message only once, unless the pack
// permits a repeat: if it is unknown whether the message arrived, the pack's on_unknown decides. This
// is also true if the agent's current configuration declares idempotent sends, because another agent
// may have received the message.
func (d *delegation) ask(ctx context.Context, peer Peer, del *machine.Delegation, card string) (machine.AgentTask, error) {
	message, err := messageOf(peer, del)
	if err != nil {
		return machine.AgentTask{}, err
	}
	if d.unsent {
		return machine.AgentTask{}, cmp.Or(d.withdraw(ctx), errLook)
	}
	repeated := del.Remote.MayBeSent()
	once := !mayRepeat(peer, del) || repeated && del.Remote.Sent != machine.SentRepeatable && del.OnUnknown != machine.Retry
	lost := fmt.Sprintf("nobody knows whether the agent took message %s, and it would do the work again", message.ID)
	switch {
	case repeated && once:
		return machine.AgentTask{}, d.resolve(ctx, unknown("AGENT_UNREACHABLE", lost))
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
		d.doubt = false
		if fault.Unsent {
			d.unsent = true
			return task, errors.Join(err, d.withdraw(ctx))
		}
		return task, err
	case !once || ok && fault.Kind != machine.AgentUnreachable:
		return task, err
	}
	return task, d.resolve(ctx, unknown("AGENT_UNREACHABLE", lost+": "+err.Error()))
}

// sending returns the value that the journal records before a message is sent to this agent.
func sending(peer Peer) machine.Sending {
	if peer.Idempotent() {
		return machine.SentRepeatable
	}
	return machine.SentOnce
}

// announce records in the journal that the message is about to be sent. It returns errLook if the message may
// not be sent.
func (d *delegation) announce(ctx context.Context, del *machine.Delegation, remote machine.Remote) error {
	ok, err := d.o.cfg.Delegations.Announce(ctx, d.row, remote)
	if err != nil {
		return err
	}
	if !ok {
		d.pause = d.o.sleep(ctx, d.pause)
		return errLook
	}
	d.doubt, del.Remote = true, remote
	return nil
}

// withdraw records that the announced message did not arrive.
func (d *delegation) withdraw(ctx context.Context) error {
	err := d.o.cfg.Delegations.NoteDelegation(ctx, d.row, machine.Remote{Sent: machine.SentNot}, nil)
	if err == nil {
		d.unsent = false
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

// mayRepeat reports whether the message may be sent again, because a repeat does no harm or the pack
// permits it.
func mayRepeat(peer Peer, del *machine.Delegation) bool {
	return peer.Idempotent() || del.OnUnknown == machine.Retry
}

// answer sends the caller's answer to the agent's question. If the agent refuses the answer because its
// author had no right to give it, the question stays open together with the refusal, and another
// principal may answer it.
//
// If the agent's sends are not idempotent, the agent gets the answer only once. For this purpose the
// answer is first removed from the journal. If it does not arrive, the question is still open, and this
// becomes known when the task is followed.
func (d *delegation) answer(ctx context.Context, peer Peer, del *machine.Delegation) (machine.AgentTask, error) {
	message := answerOf(del)
	if !mayRepeat(peer, del) {
		if _, err := peer.Get(ctx, del.Remote.TaskID); err != nil {
			return machine.AgentTask{}, err
		}
		taken := del.Remote
		taken.Answer = 0
		if err := d.note(ctx, taken, del.Remote, nil); err != nil {
			return machine.AgentTask{}, err
		}
		del.Remote = taken
	}
	task, err := peer.Send(ctx, del, message)
	fault, ok := errors.AsType[*machine.AgentFault](err)
	if ok && fault.Kind == machine.AgentRefuses {
		// Another client may have answered, and the task may have ended. In this case the end of the
		// task is used.
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

// follow waits until the task asks a question, the task has ended, or the caller has answered
// (errLook). If the stream breaks, it reads the task. If the agent no longer knows the task, the
// outcome is unknown.
func (d *delegation) follow(ctx context.Context, peer Peer, del *machine.Delegation) (machine.AgentTask, error) {
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
		// The stream reached its maximum time without an event, so the connection may be broken.
		d.pause = 0
	case interrupted != nil:
		return machine.AgentTask{}, errLook
	case err != nil:
		d.o.cfg.Log.DebugContext(ctx, "delegation stream ended, reconnecting", "run_id", d.row.RunID, "step", d.row.Step, "error", err)
	}
	task, err := peer.Get(ctx, del.Remote.TaskID)
	if isFault(err, machine.AgentNoTask) {
		return task, d.resolve(ctx, unknown("AGENT_NO_TASK", "the agent no longer knows its task "+del.Remote.TaskID))
	}
	if err == nil && task.State.Asking() == del.Remote.Asking && !task.State.Ended() {
		// There was no event, so the stream is opened again after a pause.
		d.pause = d.o.sleep(ctx, d.pause)
	}
	return task, err
}

// stopOnNews ends a stream of the agent when the delegation changes in this sidecar.
func (d *delegation) stopOnNews(listen context.Context, stop context.CancelFunc) <-chan struct{} {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-d.news:
			stop()
		case <-listen.Done():
		}
	}()
	return stopped
}

// handleTask records the agent's answer about the task. This is a new task, a question, or the end of
// the task.
func (d *delegation) handleTask(ctx context.Context, del *machine.Delegation, card string, task machine.AgentTask) error {
	known := del.Remote
	task.Usage = assumed(&task, del.Lease)
	if task.ID == "" && task.State == machine.AgentCompleted {
		// The agent has answered with a message instead of a task. If there is a task, this ends it.
		task.ID = known.TaskID
		return d.resolve(ctx, outcomeOf(task, card, del.Keyed))
	}
	if known.TaskID != "" && task.ID != known.TaskID {
		return d.resolve(ctx, done(brokeProtocol, "the agent changed its task from "+known.TaskID+" to "+task.ID))
	}
	if task.State == machine.AgentCompleted || task.State.Ended() && known.TaskID != "" {
		return d.resolve(ctx, outcomeOf(task, card, del.Keyed))
	}
	remote := machine.Remote{TaskID: task.ID, ContextID: task.ContextID, CardURL: card, Asking: task.State.Asking()}
	if err := d.note(ctx, remote, known, task.Message); err != nil || !task.State.Ended() {
		return err
	}
	return d.resolve(ctx, outcomeOf(task, card, del.Keyed))
}

// note records the id of the task and its question if they are new. It also does so if the task had
// already failed when it was first read, for example after a crash, because a result contains the id of
// its task.
func (d *delegation) note(ctx context.Context, remote, known machine.Remote, said []machine.Part) error {
	if remote == known {
		return nil
	}
	var question []machine.Part
	if remote.Asking != machine.AwaitNothing {
		question = said
	}
	err := d.o.cfg.Delegations.NoteDelegation(ctx, d.row, remote, question)
	if refusal := lasting(err); refusal != nil {
		return d.resolve(ctx, done(refusal.Reason, refusal.Message))
	}
	d.pause = 0
	return err
}

// resolve records the outcome of the step. If the run cannot accept the result, the step fails,
// although the agent did the work.
func (d *delegation) resolve(ctx context.Context, outcome machine.Outcome) error {
	err := d.o.cfg.Delegations.ResolveDelegation(ctx, d.row, outcome)
	if refusal := lasting(err); refusal != nil && outcome.OK {
		err = d.o.cfg.Delegations.ResolveDelegation(ctx, d.row, done(refusal.Reason, refusal.Message))
	}
	if err != nil {
		return err
	}
	return errOver
}

// lasting returns the error of the engine if the same input would cause the same error again. Otherwise
// it returns nil.
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

// failed handles an error. If the error may be temporary, it waits. For any other error, or if errors
// last too long, it makes the step fail. It reports whether the delegation is over.
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
		outcome.Unknown = d.hasTask || d.doubt
		// A message that the agent refused or did not receive consumes no budget.
		outcome.Metered = !d.hasTask && (fault.Code == "AGENT_REFUSED" || !d.doubt)
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

// sleep waits and returns the length of the pause. before is the length of the previous pause.
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
