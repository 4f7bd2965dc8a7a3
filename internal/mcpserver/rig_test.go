package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

// deskPack has a workflow, two agents and an agent with a variable named message.
const deskPack = `
id: desk
name: Desk
version: 1.0.0
description: Answers questions.
template_engine: {version: v1, syntax: "{{variable}}"}
prompts:
  work:
    id: work
    name: Work
    version: 1.0.0
    system_template: "{{topic}} {{count}}"
    variables:
      - {name: topic, type: string, required: true, description: What it is about.}
      - {name: count, type: number, required: false, default: 2}
  echo:
    id: echo
    name: Echo
    version: 1.0.0
    description: Says it again.
    system_template: "{{message}}"
    variables: [{name: message, type: string, required: true}]
agents:
  entry: echo
  members:
    echo: {description: Repeats a message.}
workflow:
  version: 2
  entry: work
  states:
    work: {prompt_task: work, terminal: true}
`

// desk is a sidecar with a worker, served over HTTP with tokens.
type desk struct {
	t     *testing.T
	ready server.Ready
	data  string
	stop  func()
	runs  pawlv1.RunServiceClient
	// gate holds back turns about "gate" until it is closed.
	gate chan struct{}
}

func secret(name string) string { return "secret-of-" + name + "-0123456789" }

// newDesk starts a desk. Callers are boss (all scopes), reader (runs:read) and other (the namespace "other").
func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, data: filepath.Join(t.TempDir(), "data"), gate: make(chan struct{})}
	d.begin()
	d.work(d.ready.GRPC)
	return d
}

// begin starts the sidecar on the directory of the desk.
func (d *desk) begin() {
	d.t.Helper()
	dir := d.t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			d.t.Fatal(err)
		}
		return path
	}
	c := config.Default()
	c.Data, c.Listen, c.HTTP, c.Namespaces, c.DrainTimeout = d.data, "127.0.0.1:0", "127.0.0.1:0", []string{"other"}, time.Minute
	c.Packs = []string{write("desk.pack.yaml", deskPack)}
	var lines []string
	for name, scopes := range map[string]string{"boss": "packs:write,runs:write,runs:read,work,steps:approve", "reader": "runs:read", "other": "runs:read,runs:write@other"} {
		lines = append(lines, name+" "+scopes+" "+auth.Digested(secret(name)))
	}
	c.TokensFile = write("tokens", strings.Join(lines, "\n"))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	out, in := io.Pipe()
	go func() {
		err := server.Serve(ctx, c, in, io.Discard)
		_ = in.CloseWithError(errors.Join(err, io.EOF))
		ended <- err
	}()
	d.stop = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			d.t.Errorf("serve: %v", err)
		}
	})
	d.t.Cleanup(d.stop)
	if err := json.NewDecoder(out).Decode(&d.ready); err != nil {
		d.t.Fatalf("ready line: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	d.runs = pawlv1.NewRunServiceClient(d.dial("boss"))
}

func (d *desk) dial(name string) *grpc.ClientConn {
	d.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+d.ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(output.Bearer(secret(name))))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// turn executes the turns. What it does depends on the topic of the run.
func (d *desk) turn(ctx context.Context, t *pawl.Turn) (pawl.Completion, error) {
	said := func(text string) []*pawlv1.Part {
		return []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: text}}}
	}
	turn := t.Assignment.GetTurn()
	var last string
	for _, m := range turn.GetMessages() {
		for _, p := range m.GetParts() {
			last = p.GetText()
		}
	}
	switch prompt := turn.GetSystemPrompt(); {
	case strings.HasPrefix(prompt, "gate"):
		select {
		case <-d.gate:
		case <-ctx.Done():
			return pawl.Completion{}, ctx.Err()
		}
	case strings.HasPrefix(prompt, "ask") && !strings.HasPrefix(last, "blue"):
		return pawl.Completion{Output: said("Which colour?"), Await: pawlv1.Awaiting_AWAITING_INPUT}, nil
	case strings.HasPrefix(prompt, "refuse"):
		return pawl.Completion{}, &pawl.Failure{Code: "NO_PAPER", Message: "there is no paper"}
	}
	return pawl.Completion{Output: said(turn.GetSystemPrompt() + "|" + last)}, nil
}

func (d *desk) work(addr string) {
	d.t.Helper()
	d.workBy(addr, d.turn)
}

func (d *desk) workBy(addr string, turn pawl.TurnFunc) {
	d.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(output.Bearer(secret("boss"))))
	if err != nil {
		d.t.Fatal(err)
	}
	w, err := pawl.NewWorker(pawl.WorkerConfig{Conn: conn, ID: "hands", Prompts: map[string]pawl.TurnFunc{"*": turn}, Turns: 8, Grace: time.Second})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	d.t.Cleanup(func() { cancel(); <-ended; _ = conn.Close() })
}

// bearer adds a token to each request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// connect connects a client of the official library over HTTP. path follows /mcp.
func (d *desk) connect(name, path string, options *sdk.ClientOptions, more ...func(*sdk.Client)) *sdk.ClientSession {
	d.t.Helper()
	session, err := d.tryConnect(name, path, options, more...)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = session.Close() })
	return session
}

func (d *desk) tryConnect(name, path string, options *sdk.ClientOptions, more ...func(*sdk.Client)) (*sdk.ClientSession, error) {
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, options)
	for _, add := range more {
		add(client)
	}
	return client.Connect(d.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: "http://" + d.ready.HTTP + "/mcp" + path, HTTPClient: &http.Client{Transport: bearer{secret(name)}}, MaxRetries: -1,
	}, nil)
}

// call calls a tool.
func (d *desk) call(session *sdk.ClientSession, name string, arguments map[string]any) *sdk.CallToolResult {
	d.t.Helper()
	got, err := session.CallTool(d.t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		d.t.Fatal(err)
	}
	return got
}

// textOf returns the text of a result.
func textOf(t *testing.T, got *sdk.CallToolResult) string {
	t.Helper()
	if len(got.Content) != 1 {
		t.Fatalf("contents: %v", got.Content)
	}
	text, ok := got.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("content: %v", got.Content[0])
	}
	return text.Text
}

// field returns a field of the structured content.
func field(got *sdk.CallToolResult, name string) string {
	content, _ := got.StructuredContent.(map[string]any)
	text, _ := content[name].(string)
	return text
}
