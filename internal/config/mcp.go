package config

import (
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"time"
)

// MCPServer is the operator's configuration of an MCP server. Runs may call its tools as NAME/TOOL. Either Command or
// URL is set.
type MCPServer struct {
	// Command and Args start a local server that communicates over its standard input and output.
	Command string   `yaml:"command" json:"command,omitempty"`
	Args    []string `yaml:"args" json:"args,omitempty"`
	// EnvFile holds variables of the server's environment, NAME=VALUE in each line; "" = none.
	EnvFile string `yaml:"env_file" json:"env_file,omitempty"`
	// URL is the endpoint of a server over streamable HTTP.
	URL string `yaml:"url" json:"url,omitempty"`
	// HeadersFile holds headers of each request, NAME: VALUE in each line; "" = none.
	HeadersFile string `yaml:"headers_file" json:"headers_file,omitempty"`
	// Trusted makes the server's annotations count: a call of a tool with readOnlyHint or idempotentHint is made again after
	// an unknown outcome, within the attempts of the pack, if the pack sets no on_unknown for the tool.
	Trusted bool `yaml:"trusted" json:"trusted,omitempty"`
	// Namespaces are the namespaces whose runs may call the server; empty = all that are served.
	Namespaces []string `yaml:"namespaces" json:"namespaces,omitempty"`
	// Timeout bounds one call; 0 = 5m.
	Timeout time.Duration `yaml:"timeout" json:"-"`
	// AnswerBytes bounds one answer of the server; 0 = 1MiB, or limits.message_bytes if that is less.
	AnswerBytes Bytes `yaml:"answer_bytes" json:"answer_bytes,omitempty"`
	// MediaBytes bounds an answer whose images, sounds and binary resources are stored as blobs, because it is larger than AnswerBytes; 0 =
	// 16MiB, or limits.blob_bytes if that is less. A value of at most AnswerBytes stores no media.
	MediaBytes Bytes `yaml:"media_bytes" json:"media_bytes,omitempty"`
}

// MarshalJSON writes the timeout as text, as in the file.
func (m MCPServer) MarshalJSON() ([]byte, error) {
	type plain MCPServer
	out := struct {
		plain
		Timeout string `json:"timeout,omitempty"`
	}{plain: plain(m)}
	if m.Timeout != 0 {
		out.Timeout = m.Timeout.String()
	}
	return json.Marshal(out)
}

// mcpName is the allowed form of names of MCP servers. A name has no slash, because a tool is named SERVER/TOOL.
var mcpName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

const (
	// maxMCPServers bounds the servers of one sidecar.
	maxMCPServers = 100
	// maxMCPTimeout bounds the time of a call that the operator can allow.
	maxMCPTimeout = 24 * time.Hour
)

// mcp checks the MCP servers. Their files are read when the sidecar starts.
func (c *Config) mcp(l *list) {
	if n := len(c.MCPServers); n > maxMCPServers {
		l.add("mcp_servers", "there are %d, at most %d", n, maxMCPServers)
	}
	served := c.Served()
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		m, at := c.MCPServers[name], "mcp_servers."+name
		if !mcpName.MatchString(name) {
			l.add("mcp_servers", "%q is no name: want a-z first, then at most 62 of a-z, 0-9, _ and -", name)
		}
		if (m.Command == "") == (m.URL == "") {
			l.add(at, "want either command or url")
		}
		if m.Command == "" && (len(m.Args) > 0 || m.EnvFile != "") {
			l.add(at, "args and env_file are for a server with a command")
		}
		if m.URL == "" && m.HeadersFile != "" {
			l.add(at+".headers_file", "is for a server with a url")
		}
		if u, err := url.Parse(m.URL); m.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "") {
			l.add(at+".url", "is no http(s) URL without credentials and fragment: credentials belong in headers_file")
		}
		for _, ns := range m.Namespaces {
			if !slices.Contains(served, ns) {
				l.add(at+".namespaces", "%q is not served; served: %v", ns, served)
			}
		}
		if m.Timeout < 0 || m.Timeout > maxMCPTimeout {
			l.add(at+".timeout", "%s is none of 0 to %s", m.Timeout, maxMCPTimeout)
		}
		if m.AnswerBytes > c.Limits.MessageBytes {
			l.add(at+".answer_bytes", "%s is above limits.message_bytes (%s)", m.AnswerBytes, c.Limits.MessageBytes)
		}
		if m.MediaBytes > c.Limits.BlobBytes {
			l.add(at+".media_bytes", "%s is above limits.blob_bytes (%s)", m.MediaBytes, c.Limits.BlobBytes)
		}
	}
}
