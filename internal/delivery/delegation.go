package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// delegation is one attempt of a step that an agent executes: its message is sent, then its
// task is followed to its end, through all interruptions.
type delegation struct {
	o    *Outbox
	row  machine.OutboxRow
	news <-chan struct{}
	// since is when the agent was out of reach first, zero while it is in reach. pause
	// is the last one that was made; it grows until there is news.
	since time.Time
	pause time.Duration
	// hasTask: the agent has a task for it.
	hasTask bool
	// unsent: the message was announced by this process, and did certainly not arrive, which
	// the journal does not say yet.
	unsent bool
	// doubt: the message may have been sent, and it is unknown whether it arrived.
	doubt bool
}

var (
	// errOver ends a delegation that was answered or is no longer wanted.
	errOver = errors.New("the delegation is over")
	// errLook: the delegation may have changed; look again.
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

// advance does the next thing: sends the message, or the caller's answer, or
// follows the task until it asks or ends.
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

// wait returns when the delegation may have changed: its run is paused.
func (d *delegation) wait(ctx context.Context) error {
	select {
	case <-d.news:
	case <-ctx.Done():
	}
	return errLook
}

// ask sends the step's message to the agent. The journal records the sending first: if a
// cancellation, a pause or the end of an approval came before that record, the message is not
// sent. An agent without idempotent sends gets the message once, unless the pack permits a
// repeat: if it is unknown whether the message arrived, the pack's on_unknown decides. That
// holds even if the agent's present configuration declares idempotent sends, because another
// one may have taken the message.
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

// sending is what the journal says of a message that is about to be sent to an agent.
func sending(peer Peer) machine.Sending {
	if peer.Idempotent() {
		return machine.SentRepeatable
	}
	return machine.SentOnce
}

// announce has the journal say that the message may be sent; errLook: it may not.
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

// mayHaveArrived: what was heard instead of a task leaves open whether the agent works, or is an
// answer that cannot be read.
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

// mayRepeat: sending a message again does no harm, or the pack accepts that it may.
func mayRepeat(peer Peer, del *machine.Delegation) bool {
	return peer.Idempotent() || del.OnUnknown == machine.Retry
}

// answer sends the answer to the agent's question. If the agent refuses the answer because its
// author had no right to give it, the question stays open with the refusal, and another
// principal may answer it.
//
// An agent without idempotent sends gets the answer once: the answer is first removed from the
// journal. If it does not arrive, the question is open again, which following the task shows.
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
		// Another client may have answered, and the task may have ended: its end counts.
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

// follow waits until the task asks a question, has ended, or the caller's answer is there
// (errLook). After a broken stream it reads the task. If the agent does not know the task any
// more, the outcome is unknown.
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
		// A stream that is silent for so long counts as broken.
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
		// No event came: the stream is opened again after a pause.
		d.pause = d.o.sleep(ctx, d.pause)
	}
	return task, err
}

// stopOnNews ends the listening when the delegation changes on this side.
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

// handleTask takes what the agent says of the task.
func (d *delegation) handleTask(ctx context.Context, del *machine.Delegation, card string, task machine.AgentTask) error {
	known := del.Remote
	task.Usage = assumed(&task, del.Lease)
	if task.ID == "" && task.State == machine.AgentCompleted {
		// A message instead of a task; as an answer's answer it ends the task.
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

// note keeps which task it is, and what that asks, where that is news: also of a task
// that had failed when it was first heard of, as after a crash; a result names its task.
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

// resolve answers the step. A result that the run cannot take is its failure; the agent did
// the work all the same.
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

// lasting is a refusal that the same input would meet again; nil = none.
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

// failed deals with an error: it pauses for one that may pass, and fails the step
// for any other, or when it has lasted too long. It reports whether the delegation
// is over.
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
		// A message that the agent refused or never got consumes no budget.
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

// sleep waits for the pause that follows the given one and returns it.
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
