package mcp

import (
	"bufio"
	"encoding/json"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-dev/pawl/internal/strictjson"
)

// FuzzAnswer: each answer of a server is a JSON value or a fault.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"content":[{"type":"text","text":"{\"a\":1}"}],"structuredContent":{"a":1}}`)
	f.Add(`{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"isError":true}`)
	f.Add(`{"resultType":"input_required","inputRequests":{}}`)
	f.Fuzz(func(t *testing.T, raw string) {
		var got sdk.CallToolResult
		if json.Unmarshal([]byte(raw), &got) != nil {
			return
		}
		value, err := New(Config{Name: "s", AnswerBytes: 1000}).result(t.Context(), &got, nil)
		if (err == nil) == (value == nil) || err == nil && !strictjson.Valid(value) {
			t.Errorf("%s, %v", value, err)
		}
	})
}

// FuzzOutput: what a process prints is read to its end, within the limit, and no line that is no answer
// reaches the SDK.
func FuzzOutput(f *testing.F) {
	f.Add("debug\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n")
	f.Fuzz(func(t *testing.T, output string) {
		p := &process{limit: 100}
		from := bufio.NewReaderSize(strings.NewReader(output), 16)
		for {
			line, err := p.line(from)
			if err != nil {
				if err != io.EOF && err != errTooLarge {
					t.Error(err)
				}
				return
			}
			if len(line) > p.limit {
				t.Errorf("%d bytes", len(line))
			}
			if m := p.message(line); m != nil && !strings.Contains(string(line), "jsonrpc") {
				t.Errorf("%q is %v", line, m)
			}
		}
	})
}
