package server

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/build"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/executor"
	"github.com/pawl-dev/pawl/internal/mcp"
	"github.com/pawl-dev/pawl/internal/mcpserver"
)

// checkMCPFiles reads the files of the MCP servers, so that a fault is found before the sidecar serves.
// The error contains all faults, but no secret values of the files.
func checkMCPFiles(c config.Config) error {
	var faults []config.Fault
	for _, name := range slices.Sorted(maps.Keys(c.MCPServers)) {
		if _, err := mcp.ReadEnv(c.MCPServers[name].EnvFile); err != nil {
			faults = append(faults, config.Fault{Field: "mcp_servers." + name + ".env_file", Message: err.Error()})
		}
		if _, err := mcp.ReadHeaders(c.MCPServers[name].HeadersFile); err != nil {
			faults = append(faults, config.Fault{Field: "mcp_servers." + name + ".headers_file", Message: err.Error()})
		}
	}
	if len(faults) > 0 {
		return &config.Error{Faults: faults}
	}
	return nil
}

// MCPClient returns the client of an MCP server of the configuration.
func MCPClient(c *config.Config, name string, log *slog.Logger) *mcp.Client {
	m := c.MCPServers[name]
	return mcp.New(mcp.Config{
		Name: name, Command: m.Command, Args: m.Args, EnvFile: m.EnvFile, URL: m.URL, HeadersFile: m.HeadersFile, Version: build.Version(),
		Timeout: m.Timeout, AnswerBytes: int64(cmp.Or(m.AnswerBytes, min(mcp.DefaultAnswerBytes, c.Limits.MessageBytes))),
		MediaBytes: int64(cmp.Or(m.MediaBytes, min(mcp.DefaultMediaBytes, c.Limits.BlobBytes))), Log: log,
	})
}

// mcpClients returns the clients of all MCP servers of the configuration, by name.
func mcpClients(c config.Config, log *slog.Logger) map[string]*mcp.Client {
	clients := make(map[string]*mcp.Client, len(c.MCPServers))
	for name := range c.MCPServers {
		clients[name] = MCPClient(&c, name, log)
	}
	return clients
}

// repeatable returns a function that reports whether a tool belongs to an MCP server that the operator trusts and that says
// that a second call does no harm.
func (o options) repeatable() func(tool string) bool {
	return func(tool string) bool {
		name, tool, ok := strings.Cut(tool, "/")
		return ok && o.config.MCPServers[name].Trusted && o.mcp[name].Repeatable(tool)
	}
}

// mcpTool returns a function that reports whether a tool belongs to a configured MCP server, so that
// the sidecar executes it. It returns nil if no MCP server is configured.
func mcpTool(c config.Config) func(tool string) bool {
	if len(c.MCPServers) == 0 {
		return nil
	}
	return func(tool string) bool {
		name, _, ok := strings.Cut(tool, "/")
		if !ok {
			return false
		}
		_, ok = c.MCPServers[name]
		return ok
	}
}

// mcpHandler returns a function that makes the handler for agents as MCP tools. It returns nil if this is off.
func (o options) mcpHandler() func(grpc.ClientConnInterface, func() (issuers, scopes []string)) (http.Handler, error) {
	if !o.config.MCP {
		return nil
	}
	return func(conn grpc.ClientConnInterface, trusted func() (issuers, scopes []string)) (http.Handler, error) {
		service, err := mcpserver.New(mcpserver.Config{
			Conn: conn, Version: build.Version(), URL: o.config.A2AURL, Trusted: trusted, Log: o.log,
			HasModel:  func() bool { return len(o.models.Endpoints()) > 0 },
			Execution: pawlv1.Execution(pawlv1.Execution_value["EXECUTION_"+o.config.A2AExecution]),
		})
		if err != nil {
			return nil, err
		}
		return service.Handler(), nil
	}
}

// executeTools starts a worker of MCP tools for each namespace. The workers share the connections to
// the MCP servers.
func (a *app) executeTools(ctx context.Context) error {
	c := a.opts.config
	if len(c.MCPServers) == 0 {
		return nil
	}
	for name, server := range a.executors.servers {
		if c.MCPServers[name].Trusted {
			// The first call then already knows what the server says. If the server cannot be reached, its client logs it.
			a.executors.done.Go(func() { _, _, _ = server.Tools(ctx) })
		}
	}
	stopped := func(ns string, err error) {
		a.opts.log.Error("worker of MCP tools stopped", "namespace", ns, "error", err)
	}
	return a.serve(ctx, stopped, func(ns string) (runner, error) {
		allowed := map[string]*mcp.Client{}
		for name, server := range a.executors.servers {
			if of := c.MCPServers[name].Namespaces; len(of) == 0 || slices.Contains(of, ns) {
				allowed[name] = server
			}
		}
		return executor.NewTools(executor.ToolsConfig{
			Conn: a.executors.conn, ID: a.workerID(executor.ToolsID), Namespace: ns, Servers: allowed, Steps: c.Limits.WorkerSteps, Grace: c.DrainTimeout / 2,
			OnError: func(err error) { a.opts.log.Warn("MCP tool failed", "namespace", ns, "error", err) },
		})
	})
}
