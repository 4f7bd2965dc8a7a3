package mcpserver

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/protobuf/types/known/timestamppb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

const (
	// tasksExtension is the extension for calls that end later (SEP-2663, revision 2026-07-28).
	tasksExtension = "io.modelcontextprotocol/tasks"
	// pollMillis is how often a client should ask for a task, in milliseconds.
	pollMillis = 1000
)

// These are the statuses of a task in the extension. "failed" is not used, because it means an error of the protocol. A
// run that did not complete becomes a completed task whose result is an error.
const (
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskCancelled     = "cancelled"
)

// task is the state of a run as a task. It is the result of tasks/get, and, with the result type "task", of a call.
type task struct {
	sdk.ResultBase
	ResultType    string              `json:"resultType,omitempty"`
	TaskID        string              `json:"taskId"`
	Status        string              `json:"status"`
	StatusMessage string              `json:"statusMessage,omitempty"`
	CreatedAt     string              `json:"createdAt"`
	LastUpdatedAt string              `json:"lastUpdatedAt"`
	TTL           *int64              `json:"ttlMs"`
	Poll          int                 `json:"pollIntervalMs"`
	InputRequests sdk.InputRequestMap `json:"inputRequests,omitempty"`
	Result        *sdk.CallToolResult `json:"result,omitempty"`
}

// taskParams are the params of tasks/get and tasks/cancel.
type taskParams struct {
	sdk.ParamsBase
	TaskID string `json:"taskId"`
}

// updateParams are the params of tasks/update.
type updateParams struct {
	sdk.ParamsBase
	TaskID string `json:"taskId"`
	// InputResponses are answers by the keys of questions. Answers to unknown questions can have any form.
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
}

// done is the empty result of tasks/update and tasks/cancel.
type done struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

// addTasks adds the methods of the extension. The library does not have them yet (ADR 0115).
func (c *session) addTasks(server *sdk.Server) {
	// The methods have names of their own, so adding them cannot fail.
	_ = sdk.AddReceivingCustomMethod(server, "tasks/get", c.getTask)
	_ = sdk.AddReceivingCustomMethod(server, "tasks/update", c.updateTask)
	_ = sdk.AddReceivingCustomMethod(server, "tasks/cancel", c.cancelTask)
}

// getTask implements tasks/get. A task that needs an input contains the question, and a completed task its result.
func (c *session) getTask(ctx context.Context, _ *sdk.ServerSession, params *taskParams) (*task, error) {
	ctx = c.outgoing(ctx)
	run, err := c.taskRun(ctx, params.Meta, params.TaskID)
	if err != nil {
		return nil, err
	}
	t := taskFrom(run)
	t.ResultType = "complete"
	switch t.Status {
	case taskInputRequired:
		t.InputRequests = sdk.InputRequestMap{questionKey(run): c.question(ctx, run)}
	case taskCompleted:
		if t.Result, err = c.result(ctx, run.GetRunId()); err != nil {
			return nil, rpcError(err)
		}
	}
	return t, nil
}

// updateTask answers the question of a run. It ignores answers to other questions, for example to one that was answered
// before.
func (c *session) updateTask(ctx context.Context, _ *sdk.ServerSession, params *updateParams) (*done, error) {
	ctx = c.outgoing(ctx)
	run, err := c.taskRun(ctx, params.Meta, params.TaskID)
	if err != nil {
		return nil, err
	}
	if raw, ok := params.InputResponses[questionKey(run)]; ok && asks(run) {
		var answer sdk.ElicitResult
		if err := strictjson.Decode(raw, &answer, strictjson.Foreign); err != nil {
			return nil, rpcError(badArgument("inputResponses: %v", err))
		}
		if _, err := c.answer(ctx, run, &answer); err != nil {
			return nil, rpcError(err)
		}
	}
	return &done{ResultType: "complete"}, nil
}

func (c *session) cancelTask(ctx context.Context, _ *sdk.ServerSession, params *taskParams) (*done, error) {
	ctx = c.outgoing(ctx)
	run, err := c.taskRun(ctx, params.Meta, params.TaskID)
	if err != nil {
		return nil, err
	}
	if err := c.cancel(ctx, run); err != nil {
		return nil, rpcError(err)
	}
	return &done{ResultType: "complete"}, nil
}

// cancel cancels a run. If the run has ended, cancel does nothing.
func (c *session) cancel(ctx context.Context, run *pawlv1.Run) error {
	if ended(run) {
		return nil
	}
	_, err := c.service.runs.CancelRun(ctx, &pawlv1.CancelRunRequest{Namespace: c.namespace, RunId: run.GetRunId(), Note: "cancelled over MCP"})
	return err
}

// taskRun returns the run of a task. Only a client that declares the extension may ask for it.
func (c *session) taskRun(ctx context.Context, meta sdk.Meta, id string) (*pawlv1.Run, error) {
	if !supportsTasks(meta) {
		data, _ := json.Marshal(map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasksExtension: map[string]any{}}}})
		return nil, &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities, Message: "the request does not declare the capability " + tasksExtension, Data: data}
	}
	got, err := c.service.runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: c.namespace, RunId: id})
	if err != nil {
		return nil, rpcError(err)
	}
	return got.GetRun(), nil
}

// taskFrom returns a run as a task, without its result.
func taskFrom(run *pawlv1.Run) *task {
	t := &task{
		TaskID: run.GetRunId(), Status: taskWorking, CreatedAt: iso(run.GetCreatedAt()), LastUpdatedAt: iso(run.GetUpdatedAt()), Poll: pollMillis,
	}
	switch {
	case run.GetStatus() == pawlv1.RunStatus_RUN_STATUS_CANCELLED:
		t.Status, t.StatusMessage = taskCancelled, run.GetReason()
	case ended(run):
		t.Status, t.StatusMessage = taskCompleted, run.GetReason()
	case asks(run):
		t.Status, t.StatusMessage = taskInputRequired, run.GetWaiting().GetSentence()
	default:
		t.StatusMessage = progressText(run)
	}
	return t
}

func iso(at *timestamppb.Timestamp) string { return at.AsTime().UTC().Format(time.RFC3339Nano) }

// calling is the state of a call of a tool.
type calling struct {
	// tasks means that the client supports tasks.
	tasks bool
	// run is the run of the call as it was read last. It is nil before the run has started.
	run *pawlv1.Run
	// later means that the run goes on as a task.
	later bool
}

type callingKey struct{}

// callOf returns the state of the call of a tool.
func callOf(ctx context.Context) *calling {
	of, _ := ctx.Value(callingKey{}).(*calling)
	if of == nil {
		of = &calling{}
	}
	return of
}

// checkTask returns an error if a request about a task has no params, or if one over HTTP names another task in its
// headers, by which proxies route it (SEP-2663, routing headers). Requests of earlier revisions have none.
func checkTask(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		var id string
		var missing bool
		switch params := req.GetParams().(type) {
		case *taskParams:
			if missing = params == nil; !missing {
				id = params.TaskID
			}
		case *updateParams:
			if missing = params == nil; !missing {
				id = params.TaskID
			}
		default:
			return next(ctx, method, req)
		}
		if missing {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: method + ": params are required"}
		}
		if extra := req.GetExtra(); extra != nil && extra.Header != nil && extra.Header.Get("Mcp-Name") != id {
			return nil, &jsonrpc.Error{Code: sdk.CodeHeaderMismatch, Message: "the header Mcp-Name has to be the taskId"}
		}
		return next(ctx, method, req)
	}
}

// asTask returns the task of a call of a client that supports tasks, if the run goes on after the call. If the call fails
// after its run has started, it returns the run: a client that got an error would start a second one.
func (c *session) asTask(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		call, ok := req.(*sdk.CallToolRequest)
		if !ok {
			return next(ctx, method, req)
		}
		of := &calling{tasks: supportsTasks(call.Params.Meta)}
		result, err := next(context.WithValue(ctx, callingKey{}, of), method, req)
		switch {
		case err != nil && of.run != nil:
			return unread(of.run, err), nil
		case err != nil || !of.later:
			return result, err
		}
		created := taskFrom(of.run)
		created.ResultType = "task"
		created.SetMeta(maps.Clone(result.GetMeta()))
		return created, nil
	}
}
