package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	pawl "github.com/pawl-dev/pawl/clients/go"
	"github.com/pawl-dev/pawl/test/testkit/child"
)

// peerCall is a call of a tool of a server that is not ours, and a part of its result.
type peerCall struct{ tool, arguments, want string }

// TestMCPPeers calls the official reference servers from runs: over standard input and output, over HTTP with sessions, written in
// TypeScript and in Python. A server is killed between the first and the second run, and the sidecar between the second and the third.
func TestMCPPeers(t *testing.T) {
	t.Parallel()
	peers := os.Getenv("PAWL_PEERS")
	if peers == "" {
		t.Skip("run by .ci/test-peers, which installs the servers of other people")
	}
	dir := t.TempDir()
	js := func(name string) string {
		return filepath.Join(peers, "mcp-servers", "node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js")
	}
	kept := []peerCall{
		{"web/echo", `{"message":"again"}`, "Echo: again"},
		{"files/read_text_file", fmt.Sprintf(`{"path":%q}`, filepath.Join(dir, "note.txt")), "kept"},
		{"memory/read_graph", `{}`, "counts"},
	}
	runs := map[string][]peerCall{
		"second": kept, "third": kept,
		"first": {
			{"everything/echo", `{"message":"hello"}`, "Echo: hello"},
			{"everything/get-tiny-image", `{}`, `"type":"image"`},
			{"everything/get-structured-content", `{"location":"New York"}`, `"temperature":`},
			{"web/echo", `{"message":"hello"}`, "Echo: hello"},
			{"files/write_file", fmt.Sprintf(`{"path":%q,"content":"kept"}`, filepath.Join(dir, "note.txt")), "note.txt"},
			{"memory/create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["counts"]}]}`, "Ada"},
			{"clock/convert_time", `{"source_timezone":"UTC","time":"12:00","target_timezone":"Asia/Tokyo"}`, "21:00"},
		},
	}
	servers := map[string]map[string]any{
		"everything": {"command": "node", "args": []string{js("everything"), "stdio"}},
		"web":        {"url": servePeer(t, js("everything"))},
		"files":      {"command": "node", "args": []string{js("filesystem"), dir}},
		"memory":     {"command": "node", "args": []string{js("memory")}, "env_file": filepath.Join(dir, "memory.env")},
		"clock":      {"command": filepath.Join(peers, "mcp-servers", ".venv", "bin", "mcp-server-time"), "args": []string{"--local-timezone=UTC"}},
	}
	config, err := json.Marshal(map[string]any{"mcp_servers": servers, "allow_tool": []string{"*"}, "restart_grace": "200ms", "pack": []string{filepath.Join(dir, "peers.json")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"memory.env": "MEMORY_FILE_PATH=" + filepath.Join(dir, "memory.jsonl") + "\n", "peers.json": packOf(t, runs), "pawl.yaml": string(config),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := &mcpRig{sidecar: newSidecar(t, "--config", filepath.Join(dir, "pawl.yaml")), t: t, ledger: dir}
	listed, code := r.tools("list")
	for _, tool := range []string{"echo", "write_file", "create_entities", "convert_time"} {
		if code != 0 || !strings.Contains(listed, `"name": "`+tool+`"`) {
			t.Errorf("pawl tools list ends %d and has no %s: %s", code, tool, listed)
		}
	}
	r.start()
	ctx := deadline(t, 2*time.Minute)
	answers := r.peerWorker(ctx, runs)
	for _, name := range []string{"first", "second", "third"} {
		id := r.begin(ctx, r.runs(), name, "")
		for _, call := range runs[name] {
			if got := <-answers; !strings.Contains(got, call.want) {
				t.Errorf("%s: %s, want %s", call.tool, got, call.want)
			}
		}
		r.ended(ctx, r.runs(), id)
		switch name {
		case "first":
			if r.killServers("memory") != 1 {
				t.Errorf("the server memory is not running: %s", r.stderr.String())
			}
		case "second":
			r.kill()
			r.killServers("")
			r.start()
		}
	}
}

// servePeer starts a server over HTTP and returns its URL.
func servePeer(t *testing.T, script string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command("node", script, "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	if err := child.Start(cmd, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	eventually(t, "the server listens", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return "http://127.0.0.1:" + port + "/mcp"
}

// packOf is a pack whose prompt has the tools of the calls.
func packOf(t *testing.T, runs map[string][]peerCall) string {
	t.Helper()
	tools, names := map[string]any{}, []string{}
	for _, calls := range runs {
		for _, c := range calls {
			if tools[c.tool] == nil {
				tools[c.tool], names = map[string]any{"name": c.tool, "description": "A tool of a peer."}, append(names, c.tool)
			}
		}
	}
	raw, err := json.Marshal(map[string]any{
		"id": "payments", "name": "Peers", "version": "1.0.0", "template_engine": map[string]any{"version": "v1", "syntax": "{{variable}}"},
		"prompts": map[string]any{"p": map[string]any{
			"id": "p", "name": "P", "version": "1.0.0", "system_template": "{{tool}}{{at}}", "tools": names,
			"variables": []any{map[string]any{"name": "tool", "type": "string", "required": true}, map[string]any{"name": "at", "type": "string", "required": false}},
		}},
		"tools": tools, "workflow": map[string]any{"version": 2, "entry": "s", "states": map[string]any{"s": map[string]any{"prompt_task": "p", "terminal": true}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// peerWorker is a worker whose turns make the calls of the run's variable tool, and it sends each result.
func (r *mcpRig) peerWorker(ctx context.Context, runs map[string][]peerCall) <-chan string {
	answers := make(chan string, 100)
	turn := func(ctx context.Context, turn *pawl.Turn) (pawl.Completion, error) {
		var args struct{ Tool string }
		if err := json.Unmarshal([]byte(turn.Assignment.GetTurn().GetVariablesJson()), &args); err != nil {
			return pawl.Completion{}, err
		}
		for i, call := range runs[args.Tool] {
			got, err := turn.Step(ctx, strconv.Itoa(i), call.tool, call.arguments)
			if err != nil {
				got = err.Error()
			}
			answers <- got
		}
		return pawl.Completion{}, nil
	}
	r.t.Cleanup(startWorker(ctx, r.t, r.sidecar, pawl.WorkerConfig{ID: "peers", Turns: 1, Prompts: map[string]pawl.TurnFunc{"*": turn}}))
	return answers
}

// startedServer finds the processes of servers in the log.
var startedServer = regexp.MustCompile(`msg="MCP server started" server=(\w+) pid=(\d+)`)

// killServers kills the processes of a server, "" = of all servers, that the sidecar has started.
func (r *mcpRig) killServers(name string) (killed int) {
	r.t.Helper()
	for _, at := range startedServer.FindAllStringSubmatch(r.stderr.String(), -1) {
		pid, err := strconv.Atoi(at[2])
		if err != nil {
			r.t.Fatal(err)
		}
		if (name == "" || at[1] == name) && syscall.Kill(-pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	return killed
}
