package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

// The names of the tools about runs. No agent has one of these names.
const (
	toolWait      = "pawl_wait_run"
	toolSend      = "pawl_send_input"
	toolCancel    = "pawl_cancel_run"
	toolRuns      = "pawl_list_runs"
	toolRun       = "pawl_get_run"
	toolApprovals = "pawl_list_approvals"
)

var runTools = []string{toolWait, toolSend, toolCancel, toolRuns, toolRun, toolApprovals}

const (
	// maxListed is how many runs or approvals a list has.
	maxListed = 100
	// maxListedBytes limits the arguments of each call in the list of approvals.
	maxListedBytes = 16 << 10
)

type runInput struct {
	RunID string `json:"run_id" jsonschema:"the id of the run"`
}

type sendInput struct {
	RunID string `json:"run_id" jsonschema:"the id of the run"`
	Text  string `json:"text" jsonschema:"the answer to the question of the run"`
}

type runsInput struct {
	Status  string `json:"status,omitempty" jsonschema:"RUNNING, WAITING, COMPLETED, BUDGET_EXHAUSTED, ESCALATED, FAILED or CANCELLED; default: all"`
	Pack    string `json:"pack,omitempty" jsonschema:"the id of a pack; default: all"`
	MaxRuns int    `json:"max_runs,omitempty" jsonschema:"1 to 100; default 20"`
}

type approvalsInput struct {
	RunID string `json:"run_id,omitempty" jsonschema:"only the calls of this run; default: of all runs"`
}

// listedRun is a run in a list.
type listedRun struct {
	RunID        string `json:"run_id"`
	Pack         string `json:"pack"`
	Status       string `json:"status"`
	Reason       string `json:"reason,omitempty"`
	State        string `json:"state"`
	Waiting      string `json:"waiting,omitempty"`
	CreatedAt    string `json:"created_at"`
	CostMicroUSD int64  `json:"cost_micro_usd"`
}

type listedRuns struct {
	Runs []listedRun `json:"runs"`
	More bool        `json:"more" jsonschema:"true if there are more runs"`
}

// heldCall is a call that waits for a person's decision.
type heldCall struct {
	RunID     string `json:"run_id"`
	Step      uint32 `json:"step"`
	Tool      string `json:"tool"`
	Arguments string `json:"arguments"`
	Digest    string `json:"digest" jsonschema:"identifies exactly this call; the decision names it"`
	Since     string `json:"since"`
	Starter   string `json:"starter,omitempty"`
}

type heldCalls struct {
	Calls []heldCall `json:"calls"`
	More  bool       `json:"more" jsonschema:"true if there are more calls"`
}

// addOperatorTools adds the tools about runs. None of them decides about a held call, because a model would then decide
// instead of a person.
func (c *session) addOperatorTools(server *sdk.Server) {
	readOnly := &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(false)}
	sdk.AddTool(server, &sdk.Tool{Name: toolWait, Description: "Waits for the end of a run, and returns its result. Call it again if the run has not ended.", Annotations: readOnly},
		func(ctx context.Context, req *sdk.CallToolRequest, in runInput) (*sdk.CallToolResult, any, error) {
			result, err := c.waitRun(c.outgoing(ctx), req, in.RunID)
			return result, nil, err
		})
	sdk.AddTool(server, &sdk.Tool{Name: toolSend, Description: "Answers the question of a run, and waits for what follows.", Annotations: &sdk.ToolAnnotations{DestructiveHint: new(true), OpenWorldHint: new(true)}},
		func(ctx context.Context, req *sdk.CallToolRequest, in sendInput) (*sdk.CallToolResult, any, error) {
			result, err := c.sendInput(c.outgoing(ctx), req, in)
			return result, nil, err
		})
	sdk.AddTool(server, &sdk.Tool{Name: toolCancel, Description: "Cancels a run. A run that has ended stays as it is.", Annotations: &sdk.ToolAnnotations{DestructiveHint: new(true), IdempotentHint: true, OpenWorldHint: new(false)}},
		func(ctx context.Context, _ *sdk.CallToolRequest, in runInput) (*sdk.CallToolResult, any, error) {
			result, err := c.cancelRun(c.outgoing(ctx), in.RunID)
			return result, nil, err
		})
	sdk.AddTool(server, &sdk.Tool{Name: toolRuns, Description: "Lists the newest runs with their status and what they wait for.", Annotations: readOnly},
		func(ctx context.Context, _ *sdk.CallToolRequest, in runsInput) (*sdk.CallToolResult, any, error) {
			return listed(c.listRuns(c.outgoing(ctx), in))
		})
	sdk.AddTool(server, &sdk.Tool{Name: toolRun, Description: "Explains a run: its status, what it waits for, its output, its artifacts and its last error.", Annotations: readOnly},
		func(ctx context.Context, _ *sdk.CallToolRequest, in runInput) (*sdk.CallToolResult, any, error) {
			return listed(c.content(c.outgoing(ctx), in.RunID))
		})
	sdk.AddTool(server, &sdk.Tool{Name: toolApprovals, Description: "Lists the tool calls that wait for a person's decision, with their exact arguments and digest. A person decides with 'pawl approvals', on the web page or by a link.", Annotations: readOnly},
		func(ctx context.Context, _ *sdk.CallToolRequest, in approvalsInput) (*sdk.CallToolResult, any, error) {
			return listed(c.listApprovals(c.outgoing(ctx), in))
		})
}

// listed returns a structured result, or the result of an error.
func listed[T any](content *T, err error) (*sdk.CallToolResult, any, error) {
	if err != nil {
		result, err := failure(err)
		return result, nil, err
	}
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return nil, nil, err
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}, StructuredContent: content}, nil, nil
}

func (c *session) waitRun(ctx context.Context, req *sdk.CallToolRequest, id string) (*sdk.CallToolResult, error) {
	got, err := c.service.runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: c.namespace, RunId: id})
	if err != nil {
		return failure(err)
	}
	return c.await(ctx, req, got.GetRun())
}

// sendInput answers the question of a run. A run without a question is refused, because the text would be taken for the
// answer to a later one. That still happens if another caller answers between the two calls.
func (c *session) sendInput(ctx context.Context, req *sdk.CallToolRequest, in sendInput) (*sdk.CallToolResult, error) {
	got, err := c.service.runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: c.namespace, RunId: in.RunID})
	if err != nil {
		return failure(err)
	}
	run := got.GetRun()
	if !asks(run) {
		return refusal(fmt.Sprintf("The run %s asks no question. %s", run.GetRunId(), progressText(run))), nil
	}
	if err := c.send(ctx, run, in.Text, "mcp-"+questionKey(run)); err != nil {
		return failure(err)
	}
	return c.waitRun(ctx, req, in.RunID)
}

func (c *session) cancelRun(ctx context.Context, id string) (*sdk.CallToolResult, error) {
	got, err := c.service.runs.GetRun(ctx, &pawlv1.GetRunRequest{Namespace: c.namespace, RunId: id})
	if err != nil {
		return failure(err)
	}
	if err := c.cancel(ctx, got.GetRun()); err != nil {
		return failure(err)
	}
	content, err := c.content(ctx, id)
	if err != nil {
		return failure(err)
	}
	return answer(fmt.Sprintf("The run %s: %s.", content.RunID, content.Status), content, false), nil
}

// listRuns implements the MCP tool that lists runs. It reads pages until it has max_runs runs (default 20).
func (c *session) listRuns(ctx context.Context, in runsInput) (*listedRuns, error) {
	size := in.MaxRuns
	if size == 0 {
		size = 20
	}
	if size < 1 || size > maxListed {
		return nil, badArgument("max_runs: is %d, want 1 to %d", in.MaxRuns, maxListed)
	}
	filter := &pawlv1.RunFilter{Pack: in.Pack}
	if in.Status != "" {
		n, ok := pawlv1.RunStatus_value["RUN_STATUS_"+strings.ToUpper(in.Status)]
		if !ok || n == 0 {
			return nil, badArgument("status: is %q, want RUNNING, WAITING, COMPLETED, BUDGET_EXHAUSTED, ESCALATED, FAILED or CANCELLED", in.Status)
		}
		filter.Statuses = []pawlv1.RunStatus{pawlv1.RunStatus(n)}
	}
	out := &listedRuns{Runs: []listedRun{}}
	req := &pawlv1.ListRunsRequest{Namespace: c.namespace, Filter: filter}
	for len(out.Runs) < size {
		req.PageSize = int32(size - len(out.Runs))
		page, err := c.service.runs.ListRuns(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, run := range page.GetRuns() {
			out.Runs = append(out.Runs, listedRun{
				RunID: run.GetRunId(), Pack: run.GetPack().GetId() + "@" + run.GetPack().GetVersion(), Status: output.Bare("RunStatus", run.GetStatus().String()),
				Reason: run.GetReason(), State: run.GetState(), Waiting: run.GetWaiting().GetSentence(), CreatedAt: iso(run.GetCreatedAt()), CostMicroUSD: run.GetCostMicroUsd(),
			})
		}
		out.More = page.GetNextPageToken() != ""
		if req.PageToken = page.GetNextPageToken(); !out.More {
			break
		}
	}
	return out, nil
}

// listApprovals implements the MCP tool that lists held calls. It returns the first page.
func (c *session) listApprovals(ctx context.Context, in approvalsInput) (*heldCalls, error) {
	page, err := c.service.held.ListApprovals(ctx, &pawlv1.ListApprovalsRequest{Namespace: c.namespace, RunId: in.RunID, PageSize: maxListed})
	if err != nil {
		return nil, err
	}
	out := &heldCalls{Calls: []heldCall{}, More: page.GetNextPageToken() != ""}
	for _, a := range page.GetApprovals() {
		if a.GetCall() == nil {
			continue // it waits for an event of an external state, which is no call
		}
		out.Calls = append(out.Calls, heldCall{
			RunID: a.GetRunId(), Step: a.GetCall().GetStep(), Tool: a.GetCall().GetTool(), Arguments: output.Shorten(a.GetCall().GetPayloadJson(), maxListedBytes),
			Digest: a.GetCall().GetApproval().GetDigest(), Since: iso(a.GetSince()), Starter: a.GetStarter(),
		})
	}
	return out, nil
}
