package a2a

import (
	"context"
	"errors"
	"strconv"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"github.com/pawl-dev/pawl/internal/a2a/protocol"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/query"
	"github.com/pawl-dev/pawl/internal/runtime/streams"
)

// Page sizes of ListTasks (A2A specification §3.1.4).
const (
	defaultTasks = 50
	maxTasks     = 100
)

// task returns the run of a task of the agent, if the caller may see the task. All other ids get the same error.
func (s *Service) task(ctx context.Context, caller runtime.Call, a *agent, id string) (*machine.State, error) {
	if id == "" {
		return nil, failAt(invalidParams, "id", "is required")
	}
	state, err := s.cfg.Engine.StateAt(ctx, runtime.RunRef{Call: caller, RunID: id}, 0)
	if reasonOf(err) == "RUN_NOT_FOUND" || machine.IsDeleted(err) {
		return nil, noTask()
	}
	if err != nil {
		return nil, err
	}
	if state.Task == nil || state.Task.Tenant != a.route() || !ownsTask(caller.Principal, state) {
		return nil, noTask()
	}
	// An erased run is an error, not an empty task.
	return state, state.CheckNotErased()
}

// ownsTask reports whether the task belongs to the principal, or the principal has the scope admin.
func ownsTask(p runtime.Principal, state *machine.State) bool {
	return p.Owns(state.Task.Owner) || p.Scopes.Has(runtime.ScopeAdmin)
}

// find checks the version and the extensions of a call, and returns its service parameters and its task.
func (s *Service) find(ctx context.Context, tenant, id string) (call, *machine.State, error) {
	c, err := s.negotiate(ctx)
	if err != nil {
		return c, nil, err
	}
	caller := s.caller(ctx, tenant)
	a, err := s.agentOf(ctx, caller, tenant)
	if err != nil {
		return c, nil, err
	}
	state, err := s.task(ctx, caller, a, id)
	return c, state, err
}

// getTask executes GetTask.
func (s *Service) getTask(ctx context.Context, req *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	if req.HistoryLength != nil && req.GetHistoryLength() < 0 {
		return nil, failAt(invalidParams, "historyLength", "is %d, want 0 or more", req.GetHistoryLength())
	}
	_, state, err := s.find(ctx, req.GetTenant(), req.GetId())
	if err != nil {
		return nil, err
	}
	f, err := s.read(ctx, s.caller(ctx, req.GetTenant()), state)
	if err != nil {
		return nil, err
	}
	task := f.view(req.HistoryLength, true)
	return task, s.explain(ctx, state, task)
}

// explain adds a message to the status of a task that works: what it waits for. Only GetTask returns it, because it changes without a
// record, so streams and notifications cannot have it.
func (s *Service) explain(ctx context.Context, state *machine.State, task *a2apb.Task) error {
	status := task.GetStatus()
	working := status.GetState() == a2apb.TaskState_TASK_STATE_SUBMITTED || status.GetState() == a2apb.TaskState_TASK_STATE_WORKING
	if !working || status.GetMessage() != nil {
		return nil
	}
	g, err := s.graph(ctx, state)
	if err != nil {
		return err
	}
	if text := s.cfg.Engine.WaitingFor(ctx, state, g).Brief(); text != "" {
		task.Status = &a2apb.TaskStatus{State: status.GetState(), Timestamp: status.GetTimestamp(), Message: &a2apb.Message{
			MessageId: task.GetId() + "-waiting", TaskId: task.GetId(), ContextId: task.GetContextId(),
			Role: a2apb.Role_ROLE_AGENT, Parts: []*a2apb.Part{textPart(text)},
		}}
	}
	return nil
}

// read folds all present records of a run.
func (s *Service) read(ctx context.Context, caller runtime.Call, state *machine.State) (*taskBuilder, error) {
	t, err := s.tail(ctx, caller, state, readNow)
	if err != nil {
		return nil, err
	}
	defer t.close()
	f := newFold(t.projector)
	for {
		events, err := t.next(ctx)
		if errors.Is(err, streams.ErrEnded) {
			return f, nil
		}
		if err != nil {
			return nil, err
		}
		f.apply(events)
	}
}

// listTasks executes ListTasks. It returns the caller's tasks with this agent, the most recently changed first.
func (s *Service) listTasks(ctx context.Context, req *a2apb.ListTasksRequest) (*a2apb.ListTasksResponse, error) {
	if _, err := s.negotiate(ctx); err != nil {
		return nil, err
	}
	a, err := s.agentOf(ctx, s.caller(ctx, req.GetTenant()), req.GetTenant())
	if err != nil {
		return nil, err
	}
	list, err := s.listOf(ctx, a, req)
	if err != nil {
		return nil, err
	}
	page, err := s.cfg.Engine.ListTasks(ctx, list)
	if reasonOf(err) == "BAD_PAGE_TOKEN" {
		return nil, failAt(invalidParams, "pageToken", "is not a token of this list")
	}
	if err != nil {
		return nil, err
	}
	out := &a2apb.ListTasksResponse{
		Tasks: []*a2apb.Task{}, NextPageToken: page.NextPage, PageSize: int32(list.PageSize), TotalSize: int32(page.Total),
	}
	for _, state := range page.Runs {
		f, err := s.read(ctx, list.Call, state)
		if machine.IsDeleted(err) || machine.IsErased(err) {
			// The run was deleted or erased since the page was read.
			out.TotalSize--
			continue
		}
		if err != nil {
			return nil, err
		}
		out.Tasks = append(out.Tasks, f.view(req.HistoryLength, req.GetIncludeArtifacts()))
	}
	return out, nil
}

// listOf checks a ListTasks request and converts it to a query for the tasks of the agent.
func (s *Service) listOf(ctx context.Context, a *agent, req *a2apb.ListTasksRequest) (query.ListTasksRequest, error) {
	list := query.ListTasksRequest{
		Call: s.caller(ctx, req.GetTenant()), Tenant: a.route(), ContextID: req.GetContextId(),
		PageToken: req.GetPageToken(), PageSize: defaultTasks,
		Match: func(state *machine.State) bool { return state.Erased == nil },
	}
	switch {
	case req.PageSize != nil && (req.GetPageSize() < 1 || req.GetPageSize() > maxTasks):
		return list, failAt(invalidParams, "pageSize", "is %d, want 1 to %d", req.GetPageSize(), maxTasks)
	case req.HistoryLength != nil && req.GetHistoryLength() < 0:
		return list, failAt(invalidParams, "historyLength", "is %d, want 0 or more", req.GetHistoryLength())
	case req.GetStatusTimestampAfter() != nil && !req.GetStatusTimestampAfter().IsValid():
		return list, failAt(invalidParams, "statusTimestampAfter", "is no time")
	}
	if _, known := a2apb.TaskState_name[int32(req.GetStatus())]; !known {
		return list, failAt(invalidParams, "status", "%d is no state of a task", req.GetStatus())
	}
	if req.PageSize != nil {
		list.PageSize = int(req.GetPageSize())
	}
	if after := req.GetStatusTimestampAfter(); after != nil {
		list.StatusFrom = protocol.NanosOf(after.AsTime())
	}
	if want := req.GetStatus(); want != a2apb.TaskState_TASK_STATE_UNSPECIFIED {
		list.Match = func(state *machine.State) bool { return state.Erased == nil && s.stateOf(state) == want }
	}
	return list, nil
}

// cancelTask executes CancelTask, which cancels the delegations of the task too. For a task that is already cancelled it
// returns the same answer again.
func (s *Service) cancelTask(ctx context.Context, req *a2apb.CancelTaskRequest) (*a2apb.Task, error) {
	_, state, err := s.find(ctx, req.GetTenant(), req.GetId())
	if err != nil {
		return nil, err
	}
	caller := s.caller(ctx, req.GetTenant())
	if !state.Status.Terminal() {
		answer, err := s.cfg.Engine.CancelRun(ctx, runtime.ControlRequest{
			RunRef: runtime.RunRef{Call: caller, RunID: state.RunID}, Cascade: true,
		})
		if err != nil && reasonOf(err) != "RUN_TERMINAL" {
			return nil, err
		}
		if err == nil {
			state = answer.State
		} else if state, err = s.cfg.Engine.StateAt(ctx, runtime.RunRef{Call: caller, RunID: state.RunID}, 0); err != nil {
			return nil, err
		}
	}
	// A cancelled run first compensates the effects of its tools. Until that is done, its status is not Cancelled,
	// but state.Undo already says so.
	cancelling := state.Undo != nil && state.Undo.Status == machine.Cancelled
	if state.Status != machine.Cancelled && !cancelling {
		return nil, failAt(taskNotCancelable, "id", "task %s %s", state.RunID, endOf(state))
	}
	f, err := s.read(ctx, caller, state)
	if err != nil {
		return nil, err
	}
	return f.view(nil, true), nil
}

// endOf returns a text that says why a run has ended, or why it will end when its effects are compensated.
func endOf(state *machine.State) string {
	if state.Undo != nil {
		return "ends as soon as its effects are undone (" + state.Undo.Reason + ")"
	}
	return "has ended (" + state.Reason + ")"
}

// reasonOf returns the reason of an error of the engine, or "".
func reasonOf(err error) string {
	if r, ok := errors.AsType[*machine.Error](err); ok {
		return r.Reason
	}
	return ""
}

// lastSeen returns the position at which a stream is resumed; 0 means a new stream.
func (c *call) lastSeen() (uint64, error) {
	if c.lastEvent == "" {
		return 0, nil
	}
	seq, err := strconv.ParseUint(c.lastEvent, 10, 64)
	if err != nil {
		return 0, failAt(invalidParams, lastEventHeader, "%q is no generation of a task", clip(c.lastEvent, 64))
	}
	return seq, nil
}
