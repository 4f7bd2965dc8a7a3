package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/bench/load/stat"
	"github.com/pawl-dev/pawl/internal/mcp"
)

const (
	// packTools calls mcpTool, a tool of the server mcpServer.
	packTools = "bench-tools"
	mcpServer = "bench"
	mcpTool   = "echo"
	// echoArguments are the arguments of each call.
	echoArguments = `{"message":"hello"}`
)

// mcpPart measures a call of a tool of an MCP server as a step of a run, beside the same call of the same server without a run.
func (s *suite) mcpPart(ctx context.Context) (Samples, error) {
	all, err := interleave(s.sizes.Rounds, []arm{
		{"an MCP tool, called alone", func(int) (map[string]float64, error) { return s.bareToolArm(ctx) }},
		{"an MCP tool, as a step", func(int) (map[string]float64, error) { return s.toolStepArm(ctx) }},
	}, s.logRound)
	all["mcp_overhead_us"] = all.difference("mcp_step_p50_us", "mcp_bare_p50_us")
	return all, err
}

// mcpTools are the figures of mcpPart.
func mcpTools() []figure {
	return []figure{
		plainFigure("mcp_bare_p50_us", "us", "a call of an MCP tool without a run, p50"),
		plainFigure("mcp_step_p50_us", "us", "a call of an MCP tool as a step, request to answer, p50"),
		figureWithBar("mcp_overhead_us", "us", "what a step adds to a call of an MCP tool, p50", stat.AtMost(1500)),
	}
}

// mcpCommand starts the server.
func (s *suite) mcpCommand() []string { return append([]string{s.self[0]}, s.argv("mcp", nil)...) }

func (s *suite) bareToolArm(ctx context.Context) (map[string]float64, error) {
	job := s.job("mcp", "", 1)
	job.Command = s.mcpCommand()
	got, err := s.load(ctx, job)
	return map[string]float64{"mcp_bare_p50_us": got.P50us}, err
}

func (s *suite) toolStepArm(ctx context.Context) (map[string]float64, error) {
	command := s.mcpCommand()
	config, err := json.Marshal(map[string]any{"mcp_servers": map[string]any{mcpServer: map[string]any{"command": command[0], "args": command[1:]}}})
	if err != nil {
		return nil, err
	}
	path := filepath.Join(s.root, "mcp.yaml") // JSON is YAML
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	err = s.onServer(ctx, "serve", func(target string) error {
		got, err := s.load(ctx, s.job("tool", target, 1))
		out["mcp_step_p50_us"] = got.P50us
		return err
	}, "--config", path, "--allow-tool", "*")
	return out, err
}

// mcpClient calls the tool without a run.
type mcpClient struct{ server *mcp.Client }

func newMCPClient(command []string) (*mcpClient, error) {
	if len(command) == 0 {
		return nil, errors.New("mcp: no command of the server")
	}
	return &mcpClient{mcp.New(mcp.Config{Name: mcpServer, Command: command[0], Args: command[1:], Version: "bench"})}, nil
}

func (c *mcpClient) once(ctx context.Context) error {
	_, err := c.server.Call(ctx, mcp.Call{Tool: mcpTool, Arguments: json.RawMessage(echoArguments), IdempotencyKey: "bench"})
	return err
}

func (*mcpClient) started() uint64 { return 0 }

// mcpChild is an MCP server on standard input and output. Its one tool returns its arguments.
func mcpChild(ctx context.Context, _ ChildSpec, w *wire) error {
	return w.serveRequests(ctx, answerMCP)
}

// answerMCP answers one message. The answer to a notification is null, which clients ignore.
func answerMCP(raw json.RawMessage) (any, error) {
	var request struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Arguments json.RawMessage `json:"arguments"`
		} `json:"params"`
	}
	if err := json.Unmarshal(raw, &request); err != nil {
		return nil, fmt.Errorf("mcp: %w", err)
	}
	if request.ID == nil {
		return nil, nil //nolint:nilnil // a notification has no answer
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": request.ID}
	switch request.Method {
	case "initialize":
		answer["result"] = map[string]any{
			"protocolVersion": "2025-11-25", "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": mcpServer, "version": "1"},
		}
	case "tools/list":
		answer["result"] = map[string]any{"tools": []any{map[string]any{
			"name": mcpTool, "description": "Says it again.", "inputSchema": map[string]any{"type": "object"},
		}}}
	case "tools/call":
		answer["result"] = map[string]any{"content": []any{}, "structuredContent": request.Params.Arguments}
	default:
		answer["error"] = map[string]any{"code": -32601, "message": "no " + request.Method}
	}
	return answer, nil
}
