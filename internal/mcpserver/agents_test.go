package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// TestAgentsAreTools: each entry of a pack is a tool with its variables as arguments, and a call returns what the run said.
func TestAgentsAreTools(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	session := d.connect("boss", "", nil)
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tools := map[string]string{}
	for _, tool := range listed.Tools {
		raw, err := json.Marshal(tool.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		tools[tool.Name] = tool.Description + " " + string(raw)
	}
	for name, want := range map[string]string{
		"desk":       `Answers questions. {"additionalProperties":false,"properties":{"count":{"default":2,"type":"number"},"message":{"description":"What to say to the agent first. Optional.","type":"string"},"topic":{"description":"What it is about.","type":"string"}},"required":["topic"],"type":"object"}`,
		"desk__echo": `Repeats a message. {"additionalProperties":false,"properties":{"message":{"type":"string"}},"required":["message"],"type":"object"}`,
	} {
		if tools[name] != want {
			t.Errorf("%s: %s\nwant %s", name, tools[name], want)
		}
	}
	for name, tc := range map[string]struct {
		tool      string
		arguments map[string]any
		want      string
		isError   bool
	}{
		"a workflow":          {"desk", map[string]any{"topic": "stars", "message": "Hello."}, "stars 2|Hello.", false},
		"without a message":   {"desk", map[string]any{"topic": "stars", "count": 3}, "stars 3|", false},
		"an agent":            {"desk__echo", map[string]any{"message": "again"}, "again|", false},
		"a missing variable":  {"desk", map[string]any{}, "topic", true},
		"an unknown variable": {"desk", map[string]any{"topic": "x", "colour": "red"}, "colour", true},
		"another type":        {"desk", map[string]any{"topic": "x", "count": "two"}, "count", true},
		"no text":             {"desk", map[string]any{"topic": "x", "message": 7}, "message: want a string", true},
		"a failed run":        {"desk", map[string]any{"topic": "refuse"}, "NO_PAPER: there is no paper", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tc.tool, Arguments: tc.arguments})
			if err != nil {
				t.Fatal(err)
			}
			text := textOf(t, got)
			if got.IsError != tc.isError || tc.isError && !strings.Contains(text, tc.want) || !tc.isError && text != tc.want {
				t.Errorf("%t: %q, want %t: %q", got.IsError, text, tc.isError, tc.want)
			}
			if !tc.isError && (field(got, "status") != "COMPLETED" || field(got, "output") != tc.want) {
				t.Errorf("structured content: %v", got.StructuredContent)
			}
		})
	}
}

// TestNewPacksAreTools: a pack that is registered while a client is connected is a tool at once.
func TestNewPacksAreTools(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	session := d.connect("boss", "", nil)
	names := func() (names []string) {
		listed, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range listed.Tools {
			names = append(names, tool.Name)
		}
		return names
	}
	before := names()
	long := strings.Repeat("a-very-long-key-", 5) + "end"
	content := strings.NewReplacer("id: desk", "id: second", "entry: echo", "entry: "+long, "    echo:", "    "+long+":", "  echo:", "  "+long+":", "id: echo", "id: "+long).Replace(deskPack)
	if _, err := pawlv1.NewPackServiceClient(d.dial("boss")).RegisterPack(t.Context(), &pawlv1.RegisterPackRequest{Content: []byte(content)}); err != nil {
		t.Fatal(err)
	}
	after := names()
	added := slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) })
	if len(added) != 2 || added[0] != "second" || !strings.HasPrefix(added[1], "second__a-very-long") || len(added[1]) != 64 {
		t.Errorf("new tools: %v", added)
	}
	if got := textOf(t, d.call(session, added[1], map[string]any{"message": "hi"})); got != "hi|" {
		t.Errorf("%q", got)
	}
}

// TestRepeatedCall: a call that is repeated with the same idempotency key starts no second run.
func TestRepeatedCall(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	session := d.connect("boss", "", nil)
	var ids []string
	for range 2 {
		got, err := session.CallTool(t.Context(), &sdk.CallToolParams{
			Meta: sdk.Meta{"dev.pawl/idempotency-key": "order-17"}, Name: "desk", Arguments: map[string]any{"topic": "stars"},
		})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, field(got, "run_id"))
	}
	if ids[0] == "" || ids[0] != ids[1] {
		t.Errorf("runs %v, want one", ids)
	}
	if got := d.call(session, "pawl_list_runs", nil); strings.Count(textOf(t, got), "run_id") != 1 {
		t.Errorf("runs: %s", textOf(t, got))
	}
}

// TestQuestions: a client that can ask its user answers the question of a run within the call. Another one gets the
// question, and answers with a tool.
func TestQuestions(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	asked := make(chan string, 1)
	able := d.connect("boss", "", &sdk.ClientOptions{ElicitationHandler: func(_ context.Context, req *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
		asked <- req.Params.Message
		return &sdk.ElicitResult{Action: "accept", Content: map[string]any{"answer": "blue"}}, nil
	}})
	if got := textOf(t, d.call(able, "desk", map[string]any{"topic": "ask"})); got != "ask 2|blue" {
		t.Errorf("%q", got)
	}
	if got := <-asked; got != "Which colour?" {
		t.Errorf("the question %q", got)
	}
	unable := d.connect("boss", "", nil)
	got := d.call(unable, "desk", map[string]any{"topic": "ask"})
	if text := textOf(t, got); !strings.Contains(text, "asks: Which colour?") || !strings.Contains(text, "pawl_send_input") || got.IsError {
		t.Errorf("%q", text)
	}
	id := field(got, "run_id")
	if got := textOf(t, d.call(unable, "pawl_send_input", map[string]any{"run_id": id, "text": "blue"})); got != "ask 2|blue" {
		t.Errorf("%q", got)
	}
	if got := d.call(unable, "pawl_send_input", map[string]any{"run_id": id, "text": "red"}); !got.IsError || !strings.Contains(textOf(t, got), "asks no question") {
		t.Errorf("an answer to no question: %v", textOf(t, got))
	}
}

// TestRightsOverMCP: the callers have the rights that they have everywhere.
func TestRightsOverMCP(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if got := d.call(d.connect("reader", "", nil), "desk", map[string]any{"topic": "x"}); !got.IsError || !strings.Contains(textOf(t, got), "SCOPE_MISSING") {
		t.Errorf("a reader starts a run: %s", textOf(t, got))
	}
	run := field(d.call(d.connect("boss", "", nil), "desk", map[string]any{"topic": "x"}), "run_id")
	other := d.connect("other", "/other", nil)
	listed, err := other.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range listed.Tools {
		if !strings.HasPrefix(tool.Name, "pawl_") {
			t.Errorf("the tool %s of another namespace", tool.Name)
		}
	}
	if got := d.call(other, "pawl_get_run", map[string]any{"run_id": run}); !got.IsError || !strings.Contains(textOf(t, got), "RUN_NOT_FOUND") {
		t.Errorf("a run of another namespace: %s", textOf(t, got))
	}
	for path, want := range map[string]int{"/mcp": http.StatusUnauthorized, "/mcp/other": http.StatusUnauthorized} {
		resp, err := http.Post("http://"+d.ready.HTTP+path, "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || resp.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s without a token: %d %s", path, resp.StatusCode, body)
		}
	}
	if _, err := d.tryConnect("other", "", nil); err != nil {
		t.Errorf("without a namespace it is the caller's own: %v", err)
	}
	if _, err := d.tryConnect("other", "/default", nil); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("the namespace of others: %v", err)
	}
}

// TestResources: packs, runs, records and artifacts are resources.
func TestResources(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	session := d.connect("reader", "", nil)
	started, err := d.runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "desk", VariablesJson: `{"topic":"x"}`, Execution: pawlv1.Execution_EXECUTION_WORKERS})
	if err != nil {
		t.Fatal(err)
	}
	id := started.GetRun().GetRunId()
	if _, err := d.runs.WaitRun(t.Context(), &pawlv1.WaitRunRequest{RunId: id}); err != nil {
		t.Fatal(err)
	}
	for uri, want := range map[string]string{
		"pawl://packs/desk":                      "Answers questions.",
		"pawl://packs/desk@1.0.0":                "Answers questions.",
		"pawl://runs/" + id:                      `"output":"x 2|"`,
		"pawl://runs/" + id + "/records":         `"kind":"ended"`,
		"pawl://runs/01JZZZZZZZZZZZZZZZZZZZZZZZ": "",
		"pawl://runs/" + id + "/artifacts/none":  "",
		"pawl://packs/none":                      "",
	} {
		got, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if want == "" {
			if err == nil {
				t.Errorf("%s: %v, want an error", uri, got)
			}
			continue
		}
		if err != nil || len(got.Contents) != 1 || !strings.Contains(got.Contents[0].Text, want) {
			t.Errorf("%s: %v %v", uri, err, got)
		}
	}
}

// TestPrompts: the prompts of packs are MCP prompts, rendered with their variables.
func TestPrompts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	session := d.connect("reader", "", nil)
	listed, err := session.ListPrompts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range listed.Prompts {
		names = append(names, p.Name)
		if p.Description == "" || p.Name == "desk__work" && (len(p.Arguments) != 2 || !p.Arguments[0].Required || p.Arguments[1].Required) {
			t.Errorf("%+v", p)
		}
	}
	if !slices.Equal(names, []string{"desk__echo", "desk__work"}) {
		t.Errorf("prompts %v", names)
	}
	for name, tc := range map[string]struct {
		arguments map[string]string
		want      string
		isError   bool
	}{
		"all":       {map[string]string{"topic": "stars", "count": "3"}, "stars 3", false},
		"a default": {map[string]string{"topic": "stars"}, "stars 2", false},
		"missing":   {nil, "requires topic", true},
		"no number": {map[string]string{"topic": "stars", "count": "many"}, "count: want a number", true},
	} {
		got, err := session.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "desk__work", Arguments: tc.arguments})
		if tc.isError {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %s", name, err, tc.want)
			}
			continue
		}
		if err != nil || len(got.Messages) != 1 {
			t.Errorf("%s: %v %v", name, err, got)
			continue
		}
		if text, ok := got.Messages[0].Content.(*sdk.TextContent); !ok || text.Text != tc.want {
			t.Errorf("%s: %v, want %s", name, got.Messages[0].Content, tc.want)
		}
	}
}
