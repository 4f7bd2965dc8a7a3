package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestPause: after a connection that could not be opened, calls fail at once until the next try.
func TestPause(t *testing.T) {
	t.Parallel()
	m := New(Config{Name: "s", URL: "http://127.0.0.1:1"})
	defer m.Close()
	m.next, m.failure = time.Now().Add(time.Hour), errors.New("no such host")
	_, err := m.Call(t.Context(), Call{Tool: "text"})
	if fault, ok := errors.AsType[*Fault](err); !ok || fault.Code != CodeUnreachable || fault.Message != "MCP server s: no such host" {
		t.Error(err)
	}
}

// TestReservedCodes: the codes that MCP reserves since 2026-07-28 refuse nothing before.
func TestReservedCodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code     int64
		revision string
		want     bool
	}{
		{-32602, "2025-11-25", true},
		{-32603, "2026-07-28", false},
		{-32042, "2025-11-25", false},
		{-32042, "2026-07-28", true},
		{-32019, "2026-07-28", false},
	} {
		if got := refusal(c.code, c.revision); got != c.want {
			t.Errorf("%d in %s: %v", c.code, c.revision, got)
		}
	}
}

// TestInputRequired: a server that names no input has no capacity now.
func TestInputRequired(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]Fault{
		`{"resultType":"input_required"}`: {Code: CodeRefused},
		`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}}}}`: {Code: CodeInput, Final: true},
	} {
		var got sdk.CallToolResult
		if err := json.Unmarshal([]byte(raw), &got); err != nil {
			t.Fatal(err)
		}
		_, err := New(Config{Name: "s"}).result(t.Context(), &got, nil)
		if fault, ok := errors.AsType[*Fault](err); !ok || fault.Code != want.Code || fault.Final != want.Final || fault.Unknown {
			t.Errorf("%s: %+v", raw, err)
		}
	}
}

// TestFailedWrite: no message follows one that a process did not get whole.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	p := &process{stdin: in}
	if err := p.Write(t.Context(), &jsonrpc.Request{Method: "ping"}); err == nil {
		t.Error("written")
	}
	if _, err := io.WriteString(in, "x"); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// paged is a client of a server with one tool, whose description has 500 000 bytes, on the page after those that have the given cursors. connections counts its connections.
func paged(t *testing.T, cursors ...func() string) (m *Client, connections *atomic.Int32) {
	t.Helper()
	connections = new(atomic.Int32)
	server := sdk.NewServer(&sdk.Implementation{Name: "pages", Version: "1"}, nil)
	sdk.AddTool(server, &sdk.Tool{Name: "last", Description: strings.Repeat("x", 500_000)}, func(context.Context, *sdk.CallToolRequest, struct{}) (*sdk.CallToolResult, any, error) {
		return nil, nil, nil
	})
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			asked, ok := req.GetParams().(*sdk.ListToolsParams)
			if !ok {
				return next(ctx, method, req)
			}
			page, _, _ := strings.Cut(asked.Cursor, " ")
			n, _ := strconv.Atoi(page)
			if n == len(cursors) {
				asked.Cursor = ""
				return next(ctx, method, req)
			}
			return &sdk.ListToolsResult{NextCursor: fmt.Sprint(n+1, " ", cursors[n]()), Tools: []*sdk.Tool{}}, nil
		}
	})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true})
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "server/discover" {
			connections.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(at.Close)
	m = New(Config{Name: "pages", URL: at.URL})
	t.Cleanup(m.Close)
	return m, connections
}

// TestPages: a server may give the same cursors or other ones for each list. The SDK keeps one list of a connection, which
// serves all lists.
func TestPages(t *testing.T) {
	t.Parallel()
	var lists atomic.Int32
	for name, cursor := range map[string]func() string{
		"same":  func() string { return "same" },
		"other": func() string { return fmt.Sprint(lists.Add(1)) },
		"long":  func() string { return fmt.Sprint(lists.Add(1), strings.Repeat("x", 500_000)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, connections := paged(t, cursor)
			for range 36 { // the lists have more than 16 MiB
				if tools, _, err := m.Tools(t.Context()); err != nil || len(tools) != 1 {
					t.Fatalf("%d tools, %v", len(tools), err)
				}
			}
			kept := reflect.ValueOf(m.current.session).Elem().FieldByName("toolsCache").FieldByName("cachedValues").Len()
			if kept != 1 || connections.Load() != 1 {
				t.Errorf("the SDK keeps %d answers, %d connections", kept, connections.Load())
			}
		})
	}
}

// TestLongCursors: cursors count to the bytes of a list, and pages without tools to its pages.
func TestLongCursors(t *testing.T) {
	t.Parallel()
	long := func() string { return strings.Repeat("x", 600_000) }
	m, _ := paged(t, long, long)
	if _, _, err := m.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "list of tools has more than 1048576 bytes") {
		t.Error(err)
	}
	m, _ = paged(t, slices.Repeat([]func() string{func() string { return "" }}, maxPages)...)
	if _, _, err := m.Tools(t.Context()); err == nil || !strings.Contains(err.Error(), "list of tools has more than 100 pages") {
		t.Error(err)
	}
}

// TestListWhileConnecting: a list of a connection does not wait for a call that opens another connection.
func TestListWhileConnecting(t *testing.T) {
	t.Parallel()
	m, _ := paged(t)
	if _, _, err := m.Tools(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := m.current
	if err := m.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := m.list(ctx, c)
	m.unlock()
	if err != nil {
		t.Error(err)
	}
}
