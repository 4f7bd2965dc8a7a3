package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestMCPServerFaults: each fault of an entry of mcp_servers names its field.
func TestMCPServerFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server      string
		m           MCPServer
		field, says string
	}{
		"name":               {"Bank", MCPServer{Command: "c"}, "mcp_servers", "is no name"},
		"neither":            {"s", MCPServer{}, "mcp_servers.s", "either command or url"},
		"both":               {"s", MCPServer{Command: "c", URL: "http://h"}, "mcp_servers.s", "either command or url"},
		"args of a URL":      {"s", MCPServer{URL: "http://h", Args: []string{"a"}}, "mcp_servers.s", "with a command"},
		"headers of a file":  {"s", MCPServer{Command: "c", HeadersFile: "f"}, "mcp_servers.s.headers_file", "with a url"},
		"scheme":             {"s", MCPServer{URL: "ftp://h"}, "mcp_servers.s.url", "no http(s) URL"},
		"credentials":        {"s", MCPServer{URL: "https://u:p@h"}, "mcp_servers.s.url", "headers_file"},
		"namespace":          {"s", MCPServer{Command: "c", Namespaces: []string{"shop"}}, "mcp_servers.s.namespaces", "is not served"},
		"negative timeout":   {"s", MCPServer{Command: "c", Timeout: -1}, "mcp_servers.s.timeout", "0 to"},
		"long timeout":       {"s", MCPServer{Command: "c", Timeout: 25 * time.Hour}, "mcp_servers.s.timeout", "0 to"},
		"media over limits":  {"s", MCPServer{Command: "c", MediaBytes: 65 << 20}, "mcp_servers.s.media_bytes", "limits.blob_bytes (64MiB)"},
		"answer over limits": {"s", MCPServer{Command: "c", AnswerBytes: 5 << 20}, "mcp_servers.s.answer_bytes", "limits.message_bytes (4MiB)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Default()
			c.Data, c.MCPServers = "d", map[string]MCPServer{tc.server: tc.m}
			var e *Error
			if !errors.As(c.Validate(), &e) || len(e.Faults) != 1 {
				t.Fatalf("want one fault: %v", c.Validate())
			}
			if e.Faults[0].Field != tc.field || !strings.Contains(e.Faults[0].Message, tc.says) {
				t.Errorf("fault %+v, want %s with %q", e.Faults[0], tc.field, tc.says)
			}
		})
	}
	c := Default()
	c.Data, c.MCPServers = "d", map[string]MCPServer{}
	for i := range maxMCPServers {
		c.MCPServers[fmt.Sprint("s", i)] = MCPServer{Command: "c", AnswerBytes: c.Limits.MessageBytes, Namespaces: c.Served()}
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.MCPServers["more"] = MCPServer{URL: "https://h/mcp"}
	var e *Error
	if !errors.As(c.Validate(), &e) || !strings.Contains(e.Error(), "at most 100") {
		t.Error(c.Validate())
	}
}
