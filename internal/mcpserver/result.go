package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/export"
	"github.com/pawl-dev/pawl/internal/output"
)

// fewRecords is how many of the newest records of a run are read first for its last output.
const fewRecords = 50

// maxInlineBytes limits the values of artifacts in the result of a call. A client reads the others as resources.
const maxInlineBytes = 256 << 10

// runSchema describes the structured content of a run.
var runSchema = json.RawMessage(`{
	"type": "object",
	"properties": {
		"run_id": {"type": "string", "description": "The id of the run."},
		"status": {"type": "string", "description": "RUNNING, WAITING, COMPLETED, BUDGET_EXHAUSTED, ESCALATED, FAILED or CANCELLED."},
		"reason": {"type": "string", "description": "Why the run has ended."},
		"state": {"type": "string", "description": "The state that the run visits, or visited last."},
		"waiting": {"type": "string", "description": "What the run waits for."},
		"output": {"type": "string", "description": "What the run said last."},
		"error": {"type": "string", "description": "The last error of a run that did not complete."},
		"artifacts": {"type": "object", "description": "The artifacts by name. A large one is a link to its resource."}
	},
	"required": ["run_id", "status"]
}`)

// runContent is the structured content of a run, see [runSchema].
type runContent struct {
	run       *pawlv1.Run
	RunID     string         `json:"run_id"`
	Status    string         `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	State     string         `json:"state,omitempty"`
	Waiting   string         `json:"waiting,omitempty"`
	Output    string         `json:"output,omitempty"`
	Error     string         `json:"error,omitempty"`
	Artifacts map[string]any `json:"artifacts,omitempty"`
}

// content reads what a run has produced.
func (c *session) content(ctx context.Context, id string) (*runContent, error) {
	got, err := c.service.runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: c.namespace, RunId: id, IncludeArtifacts: true})
	if err != nil {
		return nil, err
	}
	run := got.GetRun()
	records, err := c.newest(ctx, run)
	if err != nil {
		return nil, err
	}
	out := &runContent{
		run: run, RunID: run.GetRunId(), Status: output.Bare("RunStatus", run.GetStatus().String()), Reason: run.GetReason(), State: run.GetState(),
		Waiting: run.GetWaiting().GetSentence(), Output: export.Text(export.LastOutput(records)), Error: export.LastError(run, records),
	}
	free := maxInlineBytes
	for _, a := range got.GetArtifacts() {
		if out.Artifacts == nil {
			out.Artifacts = map[string]any{}
		}
		value := output.ArtifactValue(a.GetValue())
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		if free -= len(raw); free < 0 {
			value = map[string]string{"resource": artifactURI(run.GetRunId(), a.GetHead().GetName())}
		}
		out.Artifacts[a.GetHead().GetName()] = value
	}
	return out, nil
}

// newest reads newest records of a run, enough for its last output. Most runs have it among the last few.
func (c *session) newest(ctx context.Context, run *pawlv1.Run) ([]*pawlv1.Record, error) {
	records, err := export.NewestRecords(ctx, c.service.runs, run, fewRecords)
	if err == nil && (len(export.LastOutput(records)) == 0 || export.EndedBadly(run) && export.LastError(run, records) == "") {
		return export.NewestRecords(ctx, c.service.runs, run, export.NewestWindow)
	}
	return records, err
}

// result reads a run and returns the result of its call.
func (c *session) result(ctx context.Context, id string) (*sdk.CallToolResult, error) {
	content, err := c.content(ctx, id)
	if err != nil {
		return nil, err
	}
	switch run := content.run; {
	case run.GetStatus() == pawlv1.RunStatus_RUN_STATUS_COMPLETED:
		return answer(cmp.Or(content.Output, fmt.Sprintf("The run %s has completed.", id)), content, false), nil
	case ended(run):
		lines := []string{fmt.Sprintf("The run %s ended: %s (%s).", id, content.Status, content.Reason)}
		if content.Error != "" {
			lines = append(lines, "Last error: "+content.Error)
		}
		if content.Output != "" {
			lines = append(lines, "It said last: "+content.Output)
		}
		return answer(strings.Join(lines, "\n"), content, true), nil
	case asks(run):
		return answer(fmt.Sprintf("The run %s asks: %s\nAnswer with pawl_send_input.", id, c.questionText(ctx, run)), content, false), nil
	default:
		return answer(fmt.Sprintf("The run %s has not ended. %s Wait for it with pawl_wait_run.", id, progressText(run)), content, false), nil
	}
}

// unread returns the result of a call whose run has started, but could not be read afterwards.
func unread(run *pawlv1.Run, err error) *sdk.CallToolResult {
	content := &runContent{RunID: run.GetRunId(), Status: output.Bare("RunStatus", run.GetStatus().String()), State: run.GetState()}
	return answer(fmt.Sprintf("The run %s has started, but its result cannot be read now: %s. Wait for it with pawl_wait_run, and do not call the agent again.", content.RunID, errorText(err)), content, false)
}

func answer(text string, content *runContent, isError bool) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: content, IsError: isError}
}

// refusal returns the result of a call that the model can correct.
func refusal(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: true}
}

// failure returns the result for an error of the sidecar. If the sidecar refused the call, the error becomes the result
// of the tool, so that the model can read it. Every other error is returned as an error of the protocol.
func failure(err error) (*sdk.CallToolResult, error) {
	if isRefusal(err) {
		return refusal(errorText(err)), nil
	}
	return nil, rpcError(err)
}

// rpcError returns an error of the sidecar as an error of the protocol.
func rpcError(err error) error {
	if errors.As(err, new(*jsonrpc.Error)) {
		return err
	}
	code := int64(jsonrpc.CodeInternalError)
	if of := status.Code(err); of != codes.ResourceExhausted && isRefusal(err) || of == codes.Unauthenticated {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: errorText(err)}
}

// reasonOf returns the reason of an error of the sidecar.
func reasonOf(st *status.Status) string {
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetReason()
		}
	}
	return ""
}
