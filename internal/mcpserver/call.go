package mcpserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/strictjson"
)

const (
	// metaKey is the key of _meta with the idempotency key of a call. Package mcp sends the same key to servers.
	metaKey = "dev.pawl/idempotency-key"
	// progressEvery is the interval at which a call reads the progress of a run that is running. pollEvery is the
	// interval at which it reads a run that waits for something, for example an approval.
	progressEvery, pollEvery = 5 * time.Second, time.Second
	// answerField is the field of the form for the answer to a question of a run.
	answerField = "answer"
)

// run returns the handler of an agent's tool. It starts a run and waits for its end.
func (c *session) run(a *agent) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		calls := c.outgoing(ctx)
		if id := req.Params.RequestState; id != "" {
			return c.resume(calls, req, a, id)
		}
		start, err := c.startRequest(a, req)
		if err != nil {
			return refusal(err.Error()), nil
		}
		started, err := c.start(calls, start)
		if err != nil {
			return failure(err)
		}
		return c.await(calls, req, started.GetRun())
	}
}

// start starts a run. If neither the request nor the configuration says how the run is executed, the sidecar executes
// it, or workers if the sidecar has no model. A start that was refused stores nothing.
func (c *session) start(ctx context.Context, req *pawlv1.StartRunRequest) (*pawlv1.StartRunResponse, error) {
	if req.GetExecution() != pawlv1.Execution_EXECUTION_UNSPECIFIED {
		return c.service.runs.StartRun(ctx, req)
	}
	executors := []pawlv1.Execution{pawlv1.Execution_EXECUTION_SIDECAR, pawlv1.Execution_EXECUTION_WORKERS}
	if known := c.service.cfg.HasModel; known != nil && !known() {
		slices.Reverse(executors)
	}
	req.Execution = executors[0]
	got, err := c.service.runs.StartRun(ctx, req)
	// The other executor has the run if it was started when the sidecar had a model, or had none. Its id then has another body.
	if reason := reasonOf(status.Convert(err)); reason == "NO_MODELS" || reason == "ID_REUSED" && req.GetRequestId() != "" {
		req.Execution = executors[1]
		if again, failed := c.service.runs.StartRun(ctx, req); failed == nil || reason == "NO_MODELS" {
			return again, failed
		}
	}
	return got, err
}

// startRequest returns the request that starts the run of a call.
func (c *session) startRequest(a *agent, req *sdk.CallToolRequest) (*pawlv1.StartRunRequest, error) {
	start := &pawlv1.StartRunRequest{Namespace: c.namespace, Pack: a.pack.GetDigest(), Execution: c.service.cfg.Execution}
	if a.member != "" {
		start.Entry = &pawlv1.StartRunRequest_Agent{Agent: a.member}
	}
	variables, message, err := splitArguments(req.Params.Arguments, a.takesMessage())
	if err != nil {
		return nil, err
	}
	start.VariablesJson = variables
	if message != "" {
		start.Input = []*pawlv1.Part{textPart(message)}
	}
	switch key := req.Params.Meta[metaKey].(type) {
	case nil:
	case string:
		// A repeated call has to be the same request, also if the pack has another default version by then.
		start.RequestId, start.Pack = key, a.pack.GetId()
	default:
		return nil, fmt.Errorf("_meta[%q]: want a string", metaKey)
	}
	return start, nil
}

// splitArguments returns the arguments of a call as the variables and the first message of a run. Without arguments the
// variables are {}.
func splitArguments(arguments []byte, takesMessage bool) (variables, message string, err error) {
	if arguments = bytes.TrimSpace(arguments); len(arguments) == 0 {
		return "{}", "", nil
	}
	values, err := strictjson.Object(arguments)
	if err != nil {
		return "", "", fmt.Errorf("arguments: want one JSON object: %w", err)
	}
	if raw, ok := values[messageArgument]; ok && takesMessage {
		value, err := strictjson.Value(raw)
		text, isText := value.(string)
		if err != nil || !isText {
			return "", "", fmt.Errorf("%s: want a string", messageArgument)
		}
		message = text
		delete(values, messageArgument)
	}
	encoded, err := json.Marshal(values)
	return string(encoded), message, err
}

// resume answers the question of a run of the agent, if the call has the answer, and waits again.
func (c *session) resume(ctx context.Context, req *sdk.CallToolRequest, a *agent, id string) (*sdk.CallToolResult, error) {
	got, err := c.service.runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: c.namespace, RunId: id})
	if err != nil {
		return failure(err)
	}
	run := got.GetRun()
	if run.GetPack().GetId() != a.pack.GetId() || run.GetAgent() != a.member {
		return nil, rpcError(badArgument("requestState: the run %s is not one of %s", id, a.name))
	}
	if answer, ok := req.Params.InputResponses[questionKey(run)].(*sdk.ElicitResult); ok && asks(run) {
		sent, err := c.answer(ctx, run, answer)
		if err != nil {
			return failure(err)
		}
		if !sent {
			result, err := c.result(ctx, id)
			if err != nil {
				return failure(err)
			}
			return result, nil
		}
		run = &pawlv1.Run{RunId: id} // the run as it was before the answer still asks
	}
	return c.await(ctx, req, run)
}

// await waits for the end of a run, or for its question, and returns the result of the call. If the run takes longer, the
// call becomes a task if the client supports tasks. Otherwise the result has the id of the run. So has the result if the
// run cannot be read: a client that got an error would start a second run.
func (c *session) await(ctx context.Context, req *sdk.CallToolRequest, run *pawlv1.Run) (*sdk.CallToolResult, error) {
	of := callOf(ctx)
	of.run = run
	limit := c.service.cfg.Wait
	if of.tasks {
		limit = c.service.cfg.TaskWait
	}
	now, err := c.wait(ctx, req, run, limit)
	if err != nil {
		return unread(run, err), nil
	}
	run, of.run = now, now
	switch {
	case of.tasks && !ended(run):
		of.later = true
		return &sdk.CallToolResult{}, nil
	case asks(run) && elicits(req.Session, req.Params.Meta) && !answersOnce(req):
		return &sdk.CallToolResult{
			InputRequests: sdk.InputRequestMap{questionKey(run): c.question(ctx, run)}, RequestState: run.GetRunId(),
		}, nil
	}
	result, err := c.result(ctx, run.GetRunId())
	if err != nil {
		return unread(run, err), nil
	}
	return result, nil
}

// answersOnce reports whether a call already has an answer of a client whose library asks its user only once in a call:
// one of a revision before 2026-07-28.
func answersOnce(req *sdk.CallToolRequest) bool {
	return req.Params.RequestState != "" && capabilitiesOf(req.Params.Meta) == nil
}

// wait waits until a run has ended or asks a question, at most for a time. It reports the progress to a client that wants
// to know it.
func (c *session) wait(ctx context.Context, req *sdk.CallToolRequest, run *pawlv1.Run, limit time.Duration) (*pawlv1.Run, error) {
	token := req.Params.GetProgressToken()
	deadline := time.Now().Add(limit)
	for !ended(run) && !asks(run) {
		left := time.Until(deadline)
		if left <= 0 {
			break
		}
		wait := &pawlv1.WaitRunRequest{Namespace: c.namespace, RunId: run.GetRunId(), Until: pawlv1.WaitUntil_WAIT_UNTIL_WAITING, Timeout: durationpb.New(min(left, progressEvery))}
		if run.GetStatus() == pawlv1.RunStatus_RUN_STATUS_WAITING {
			// The run waits for something other than an answer to a question, for example for an approval. It can still
			// ask a question before it ends, so its state is read every pollEvery.
			wait.Until, wait.Timeout = pawlv1.WaitUntil_WAIT_UNTIL_TERMINAL, durationpb.New(min(left, pollEvery))
		}
		began := time.Now()
		got, err := c.service.runs.WaitRun(ctx, wait)
		if err != nil {
			return nil, err
		}
		if got.GetTimedOut() && time.Since(began) < wait.GetTimeout().AsDuration()/2 {
			return got.GetRun(), nil // the sidecar stops, and answers all that wait
		}
		moved := got.GetRun().GetSeq() != run.GetSeq()
		run = got.GetRun()
		if token != nil && moved && !ended(run) {
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(run.GetSeq()), Message: progressText(run)})
		}
	}
	return run, nil
}

// progressText returns one line that describes the progress of a run: its state, and what it waits for.
func progressText(run *pawlv1.Run) string {
	text := "In the state " + run.GetState() + "."
	if waiting := run.GetWaiting().GetSentence(); waiting != "" {
		text += " " + waiting
	}
	return text
}

// ended reports whether a run has ended.
func ended(run *pawlv1.Run) bool {
	return run.GetStatus() > pawlv1.RunStatus_RUN_STATUS_WAITING
}

// asks reports whether a run waits for an input of the caller. The run must come from GetRun or WaitRun. The question of
// an agent to which the run has delegated counts too.
func asks(run *pawlv1.Run) bool {
	return run.GetWaiting().GetKind() == pawlv1.WaitingKind_WAITING_KIND_INPUT
}

func textPart(text string) *pawlv1.Part { return &pawlv1.Part{Content: &pawlv1.Part_Text{Text: text}} }
