package a2a

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// item is one event of a stream. An item without a response only keeps the connection alive.
type item struct {
	*a2apb.StreamResponse
	// id is the position from which a stream that breaks after this item is resumed; 0 means the id of the
	// item before.
	id uint64
}

// drains is the error reason with which a draining host ends the waits of its callers. lookFor limits
// the last read of a task in this case, because a draining host does not wait for HTTP responses.
const (
	drains  = "DRAINING"
	lookFor = 200 * time.Millisecond
)

// sendFunc sends one item of a stream.
type sendFunc func(item) error

// sendMessage executes SendMessage. It returns at once, or when the task has ended or needs an input of
// its sender.
func (s *Service) sendMessage(ctx context.Context, req *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
	stay, leave, err := s.host.AcquireWaitSlot(ctx, a2apb.A2AService_SendMessage_FullMethodName, s.caller(ctx, req.GetTenant()).Namespace)
	if err != nil {
		return nil, err
	}
	defer leave()
	answer, m, err := s.accept(ctx, req)
	if err != nil {
		return nil, indeterminate(ctx, err)
	}
	if err := s.configure(ctx, m, answer.State); err != nil {
		return nil, err
	}
	history := historyOf(req.GetConfiguration())
	if req.GetConfiguration().GetReturnImmediately() {
		f, err := s.read(ctx, m.caller, answer.State)
		if err != nil {
			return nil, err
		}
		return taskAnswer(f.view(history, true)), nil
	}
	t, f, err := s.settle(stay, m, answer)
	if err != nil && m.id != "" {
		return nil, cause(stay, err) // a repeat continues to wait
	}
	if err != nil {
		task, err := s.currentTask(ctx, stay, m, taskView{t, f, answer.State}, err)
		if err != nil {
			return nil, err
		}
		return taskAnswer(task), nil
	}
	if reply := t.answer(); reply != nil {
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Message{Message: reply}}, nil
	}
	return taskAnswer(f.view(history, true)), nil
}

func taskAnswer(task *a2apb.Task) *a2apb.SendMessageResponse {
	return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: task}}
}

// settle waits until the task of a message has ended or needs an input of its sender. It ignores the task's states
// from before the message was applied.
func (s *Service) settle(ctx context.Context, m *inbound, answer runtime.Answer) (*tail, *taskBuilder, error) {
	t, f, err := s.follow(ctx, m.caller, answer)
	if err != nil {
		return nil, nil, err
	}
	defer t.close()
	for t.seq < answer.State.Seq || !endsBlockingSend(t.state) {
		events, err := t.next(ctx)
		if errors.Is(err, streams.ErrEnded) {
			break
		}
		if err != nil {
			return t, f, err
		}
		f.apply(events)
	}
	return t, f, nil
}

// follow opens a tail of the records of a run. If the answer started the run, follow processes the records
// in the answer, and the tail begins after them. Otherwise the tail begins with the first record.
func (s *Service) follow(ctx context.Context, caller runtime.Call, answer runtime.Answer) (*tail, *taskBuilder, error) {
	graph, err := s.graph(ctx, answer.State)
	if err != nil {
		return nil, nil, err
	}
	t := &tail{projector: newProjector(answer.State, graph)}
	if t.redaction, err = s.redactionFor(ctx, caller, answer.State, graph); err != nil {
		return nil, nil, err
	}
	f := newFold(t.projector)
	after := uint64(0)
	if answer.Entry.First == 1 && len(answer.Entry.Records) > 0 {
		f.apply(t.commit(answer.Entry.Input.Semantics, answer.Entry.Records))
		after = t.seq
	}
	return t, f, t.open(ctx, s.cfg.Engine, caller, after, readLive)
}

// answer returns the message with which the executor answered instead of a task, or nil.
func (p *projector) answer() *a2apb.Message {
	if p.reply == nil || p.state != a2apb.TaskState_TASK_STATE_COMPLETED {
		return nil
	}
	return &a2apb.Message{
		MessageId: p.reply.GetMessageId(), ContextId: p.contextID, Role: a2apb.Role_ROLE_AGENT, Parts: p.reply.GetParts(),
	}
}

// streamMessage executes SendStreamingMessage. It sends the task, then its events, until the task has ended or needs
// an input. If the executor answers with a message instead of a task, it sends only that message. If the task needs an
// authorization (AUTH_REQUIRED), the stream stays open, because the authorization does not come from this client.
func (s *Service) streamMessage(ctx context.Context, req *a2apb.SendMessageRequest, to sendFunc) error {
	if s.cfg.NoStreams {
		return noStreams()
	}
	stay, leave, err := s.host.AcquireWaitSlot(ctx, a2apb.A2AService_SendStreamingMessage_FullMethodName, s.caller(ctx, req.GetTenant()).Namespace)
	if err != nil {
		return err
	}
	defer leave()
	answer, m, err := s.accept(ctx, req)
	if err != nil {
		return indeterminate(ctx, err)
	}
	if err := s.configure(ctx, m, answer.State); err != nil {
		return err
	}
	st, err := s.streamTask(stay, m, answer, to)
	if err == nil || st.taskSent {
		return cause(stay, err)
	}
	if st.builder != nil {
		st.builder.apply(st.heldEvents)
	}
	task, err := s.currentTask(ctx, stay, m, taskView{st.tail, st.builder, answer.State}, err)
	if err != nil {
		return err
	}
	if err := to(item{StreamResponse: &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}}}); err != nil {
		return err
	}
	return context.Cause(stay)
}

// streamTask sends the task of a message, and then its events, to the client that sent the message.
func (s *Service) streamTask(stay context.Context, m *inbound, answer runtime.Answer, to sendFunc) (st *stream, err error) {
	t, f, err := s.follow(stay, m.caller, answer)
	if err != nil {
		return &stream{}, err
	}
	defer t.close()
	st = &stream{tail: t, builder: f, history: historyOf(m.req.GetConfiguration()), to: to, lastRecord: answer.State.Seq}
	st.done = func(state a2apb.TaskState) bool {
		return ended(state) || state == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	}
	if m.req.GetMessage().GetTaskId() == "" {
		if done, err := st.grace(stay, s.cfg.ReplyGrace); done || err != nil {
			return st, err
		}
	}
	return st, st.run(stay)
}

// taskView is a task as computed from the records that were read so far. left is the state of the run directly after
// the call's message was applied.
type taskView struct {
	*tail
	*taskBuilder
	left *machine.State
}

// currentTask returns the current state of a task whose message was accepted while the host drains. The
// client receives it at once, because a repeated message would be a different message. If the host
// cannot be read any more, currentTask returns an error that says so.
func (s *Service) currentTask(ctx, stay context.Context, m *inbound, k taskView, err error) (*a2apb.Task, error) {
	refusal, ended := errors.AsType[*machine.Error](context.Cause(stay))
	switch {
	case !ended || refusal.Code != machine.CodeUnavailable:
		return nil, cause(stay, err)
	case refusal.Reason != drains:
		e := fail(unavailable, "task %s has the message, and its node went away; look for the task", k.left.RunID)
		e.domain, e.reason = engineDomain, "COMMIT_UNKNOWN"
		return nil, e
	}
	if k.taskBuilder == nil || k.seq < k.left.Seq {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookFor)
		defer cancel()
		if k.taskBuilder, err = s.read(ctx, m.caller, k.left); err != nil {
			return nil, err
		}
	}
	return k.view(historyOf(m.req.GetConfiguration()), true), nil
}

// subscribe executes SubscribeToTask. It sends the current task, then the events of the task until the
// task has ended. A resumed stream begins with the task at the position of its reader, so the reader
// misses no event.
func (s *Service) subscribe(ctx context.Context, req *a2apb.SubscribeToTaskRequest, to sendFunc) error {
	if s.cfg.NoStreams {
		return noStreams()
	}
	c, state, err := s.find(ctx, req.GetTenant(), req.GetId())
	if err != nil {
		return err
	}
	seen, err := c.lastSeen()
	if err != nil {
		return err
	}
	switch {
	case seen > state.Seq:
		return failAt(invalidParams, lastEventHeader, "%d is ahead of the task, which is at %d", seen, state.Seq)
	case seen == 0 && state.Status.Terminal():
		return failAt(unsupportedOperation, "id", "task %s has ended; get it instead", state.RunID)
	case seen == 0:
		seen = state.Seq
	}
	stay, leave, err := s.host.AcquireWaitSlot(ctx, a2apb.A2AService_SubscribeToTask_FullMethodName, s.caller(ctx, req.GetTenant()).Namespace)
	if err != nil {
		return err
	}
	defer leave()
	t, err := s.tail(stay, s.caller(ctx, req.GetTenant()), state, readLive)
	if err != nil {
		return err
	}
	defer t.close()
	st := &stream{tail: t, builder: newFold(t.projector), to: to, lastRecord: seen, done: ended}
	return cause(stay, st.run(stay))
}

// stream sends one task and its events to one reader.
type stream struct {
	*tail
	builder *taskBuilder
	history *int32
	to      sendFunc
	// lastRecord is the last record that the sent task contains.
	lastRecord uint64
	// taskSent reports whether the task was sent. From then on each event is sent when it occurs.
	taskSent bool
	// heldEvents are the events that wait until the task is sent. They are sent after it.
	heldEvents []event
	done       func(a2apb.TaskState) bool
}

// grace delays the first message of the stream by at most the given time, because the executor may
// answer with a message instead of a task. The first record ends the delay.
func (st *stream) grace(ctx context.Context, most time.Duration) (done bool, err error) {
	if st.seq != st.lastRecord || endsBlockingSend(st.state) {
		return false, nil
	}
	short, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	events, err := st.next(short)
	for err == nil && st.seq == st.lastRecord {
		// A worker has the turn and may still answer with a message, so the events wait.
		st.heldEvents = append(st.heldEvents, events...)
		events, err = st.next(short)
	}
	switch {
	case ctx.Err() == nil && short.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		return false, nil
	case errors.Is(err, streams.ErrEnded):
		return false, nil
	case err != nil:
		return false, err
	}
	if reply := st.answer(); reply != nil {
		return true, st.to(item{StreamResponse: &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Message{Message: reply}}})
	}
	if err := st.begin(); err != nil {
		return false, err
	}
	done, err = st.sendEvents(events)
	return done, err
}

// begin sends the task.
func (st *stream) begin() error {
	st.taskSent = true
	task := st.builder.view(st.history, true)
	id := uint64(task.GetMetadata().GetFields()[generationKey].GetNumberValue())
	// Events that were sent need not be kept.
	st.builder = nil
	if err := st.to(item{StreamResponse: &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: task}}, id: id}); err != nil {
		return err
	}
	_, err := st.sendEvents(st.heldEvents)
	st.heldEvents = nil
	return err
}

// run sends the task, unless it was sent before, and then its events until the task has ended or needs an input.
func (st *stream) run(ctx context.Context) error {
	if !st.taskSent && st.seq >= st.lastRecord && st.seq > 0 {
		if err := st.begin(); err != nil || st.done(st.state) {
			return err
		}
	}
	for {
		events, err := st.next(ctx)
		if errors.Is(err, streams.ErrEnded) {
			return st.last()
		}
		if err != nil {
			return err
		}
		if done, err := st.sendEvents(events); done || err != nil {
			return err
		}
	}
}

// last sends the task if the journal ended before the task was sent.
func (st *stream) last() error {
	if st.taskSent {
		return nil
	}
	return st.begin()
}

// sendEvents sends events. Before the task is sent, events up to lastRecord become part of the task. Then
// sendEvents sends the task and the later events. Without events it sends an item that keeps the connection
// alive.
func (st *stream) sendEvents(events []event) (done bool, err error) {
	if len(events) == 0 && st.taskSent {
		return false, st.to(item{})
	}
	for i := range events {
		if !st.taskSent && events[i].seq > st.lastRecord {
			if err := st.begin(); err != nil {
				return false, err
			}
		}
		if !st.taskSent {
			st.builder.apply(events[i : i+1])
			continue
		}
		if events[i].update == nil {
			continue
		}
		it := item{StreamResponse: events[i].update}
		if i+1 == len(events) || events[i+1].seq != events[i].seq {
			it.id = events[i].seq
		}
		if err := st.to(it); err != nil {
			return false, err
		}
	}
	if !st.taskSent && st.seq >= st.lastRecord {
		if err := st.begin(); err != nil {
			return false, err
		}
	}
	return st.taskSent && st.done(st.state), nil
}

// indeterminate converts the error of a message that the host stopped, not its sender. It is then unknown whether the
// message was accepted.
func indeterminate(ctx context.Context, err error) error {
	if _, ended := errors.AsType[*machine.Error](context.Cause(ctx)); ended && errors.Is(err, context.Canceled) {
		return machine.ErrIndeterminate
	}
	return err
}

// cause returns the error with which the host ended a wait. If the host did not end it, cause returns err.
func cause(stay context.Context, err error) error {
	var refusal *machine.Error
	if err != nil && errors.As(context.Cause(stay), &refusal) {
		return refusal
	}
	if errors.Is(err, streams.ErrEnded) {
		return fmt.Errorf("a2a: %w", err)
	}
	return err
}

func noStreams() error {
	return fail(unsupportedOperation, "this agent streams nothing, as its card says; ask for the task")
}
