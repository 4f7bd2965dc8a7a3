package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/testkit/child"
)

const (
	// agentCalls is how many calls of an agent are made over MCP, and agentCallKills how often both processes are killed meanwhile.
	agentCalls     = 3
	agentCallKills = 8
)

// mcpClient is a client of `pawl mcp`, a process of its own.
type mcpClient struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	id  int
}

// mcp starts `pawl mcp` for the sidecar.
func (s *sidecar) mcp() (*mcpClient, error) {
	c := &mcpClient{cmd: exec.Command(binary(s.t), "mcp", "--addr", "unix:"+s.socket)}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewScanner(out)
	c.out.Buffer(nil, 1<<20)
	return c, child.Start(c.cmd, syscall.SIGKILL)
}

// kill ends the process.
func (c *mcpClient) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// request sends a request of a client that supports tasks, and returns the result. A process or sidecar that is gone is an error.
func (c *mcpClient) request(method string, params map[string]any) (map[string]any, error) {
	if err := c.send(method, params); err != nil {
		return nil, err
	}
	return c.receive()
}

// send sends the request, and does not wait for the result.
func (c *mcpClient) send(method string, params map[string]any) error {
	c.id++
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "e2e", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}},
	}
	if key, ok := params["key"]; ok {
		meta["dev.pawl/idempotency-key"] = key
		delete(params, "key")
	}
	params["_meta"] = meta
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.id, "method": method, "params": params})
	if err != nil {
		return err
	}
	_, err = c.in.Write(append(line, '\n'))
	return err
}

// receive returns the result of the last request.
func (c *mcpClient) receive() (map[string]any, error) {
	for c.out.Scan() {
		var got struct {
			ID     int
			Result map[string]any
			Error  json.RawMessage
		}
		if err := json.Unmarshal(c.out.Bytes(), &got); err != nil {
			return nil, err
		}
		if got.ID == c.id && got.Error != nil {
			return nil, errors.New(string(got.Error))
		}
		if got.ID == c.id {
			return got.Result, nil
		}
	}
	return nil, errors.Join(io.ErrUnexpectedEOF, c.out.Err())
}

// TestKillAgentsOverMCP sends SIGKILL to the sidecar and to `pawl mcp` between the start of a run and its answer, and between the polls
// of tasks. A client that repeats a call with its key gets the same task, the tasks end, and no tool runs twice.
func TestKillAgentsOverMCP(t *testing.T) {
	t.Parallel()
	ctx := deadline(t, 4*time.Minute)
	s := newSidecar(t, "--pack", "testdata/count.json", "--allow-tool", "*")
	s.start()
	c := &counter{calls: map[string]int{}}
	t.Cleanup(startCounters(ctx, t, s, c))
	client, err := s.mcp()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.kill() })
	killBoth := func() {
		client.kill()
		s.kill()
		s.start()
		if client, err = s.mcp(); err != nil {
			t.Fatal(err)
		}
	}
	tasks := map[string]string{}
	call := func(key string) {
		eventually(t, "the call is answered", func() bool {
			got, err := client.request("tools/call", map[string]any{"key": key, "name": "count", "arguments": map[string]any{}})
			if err != nil {
				return false
			}
			id, _ := got["taskId"].(string)
			if id == "" {
				content, _ := got["structuredContent"].(map[string]any)
				id, _ = content["run_id"].(string)
			}
			if id == "" || tasks[key] != "" && tasks[key] != id {
				t.Fatalf("the call %s has the task %s, and now %v", key, tasks[key], got)
			}
			tasks[key] = id
			return true
		})
	}
	for i := range agentCalls {
		key := fmt.Sprint("call-", i)
		if err := client.send("tools/call", map[string]any{"key": key, "name": "count", "arguments": map[string]any{}}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the run has started", func() bool {
			page, err := s.runs().ListRuns(ctx, &pawlv1.ListRunsRequest{})
			return err == nil && len(page.GetRuns()) == i+1
		})
		killBoth() // the answer of the call is lost
		call(key)
	}
	for i := range agentCallKills {
		seen := c.turns.Load()
		for poll := 0; poll < 20 && c.turns.Load() < seen+40; poll++ {
			if _, err := client.request("tasks/get", map[string]any{"taskId": tasks["call-0"]}); err != nil {
				t.Fatal(err)
			}
		}
		killBoth()
		call(fmt.Sprint("call-", i%agentCalls))
	}
	for key, id := range tasks {
		var task map[string]any
		eventually(t, "the task ends", func() bool {
			var err error
			task, err = client.request("tasks/get", map[string]any{"taskId": id})
			return err == nil && task["status"] == "completed"
		})
		result, _ := task["result"].(map[string]any)
		content, _ := result["structuredContent"].(map[string]any)
		if content["status"] != "COMPLETED" || content["run_id"] != id {
			t.Errorf("%s: %v", key, task)
		}
	}
	page, err := s.runs().ListRuns(ctx, &pawlv1.ListRunsRequest{})
	if err != nil || len(page.GetRuns()) != agentCalls {
		t.Errorf("%d runs (%v), want %d", len(page.GetRuns()), err, agentCalls)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for run, n := range c.calls {
		if n != workerVisits {
			t.Errorf("the tool of %s ran %d times, want %d", run, n, workerVisits)
		}
	}
}
