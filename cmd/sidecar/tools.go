package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/mcp"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newTools(p *output.Printer) *cobra.Command {
	s := &mcpServers{}
	cmd := group("tools", "Tools of the MCP servers of a configuration file", newToolsList(p, s), newToolsCall(p, s), newToolsPin(p, s), newToolsDiff(p, s))
	cmd.Long = `Shows, pins and calls the tools of MCP servers. The commands start or reach the servers of
mcp_servers themselves; no sidecar has to run.`
	s.flag(cmd)
	return cmd
}

// mcpServers are the MCP servers of a configuration file.
type mcpServers struct {
	config config.Config
}

// flag adds the flag --config.
func (s *mcpServers) flag(cmd *cobra.Command) {
	cmd.PersistentFlags().String("config", "", "configuration file with mcp_servers (PAWL_CONFIG)")
}

// load reads the configuration file.
func (s *mcpServers) load(cmd *cobra.Command) (err error) {
	if s.config, err = config.Load(cmd.Flags(), os.LookupEnv); !onlyData(err) {
		return output.Usage(err)
	}
	if len(s.config.MCPServers) == 0 {
		return output.Usage(errors.New("no MCP server is configured: name a file with mcp_servers with --config"))
	}
	return nil
}

// client returns the client of a server. The caller closes it.
func (s *mcpServers) client(name string) *mcp.Client {
	return server.MCPClient(&s.config, name, slog.New(slog.DiscardHandler))
}

// known returns an error if a server is not configured.
func (s *mcpServers) known(name string) error {
	if _, ok := s.config.MCPServers[name]; !ok {
		return output.Usage(fmt.Errorf("no MCP server %q is configured; servers: %s", name, strings.Join(sortedNames(s.config.MCPServers), ", ")))
	}
	return nil
}

// offer is the list of tools that an MCP server offers now, or the reason why it could not be read.
type offer struct {
	Server  string            `json:"server"`
	Tools   []mcp.Tool        `json:"tools"`
	Refused []mcp.RefusedTool `json:"refused"`
	// Error is the reason why the list of the server could not be read. "" means that it was read.
	Error string `json:"error,omitempty"`
}

// tool returns a tool in the server's list. If it is not in the list, why contains the reason.
func (o *offer) tool(name string) (tool *mcp.Tool, why string) {
	if i := slices.IndexFunc(o.Tools, func(t mcp.Tool) bool { return t.Name == name }); i >= 0 {
		return &o.Tools[i], ""
	}
	for _, r := range o.Refused {
		if r.Name == name {
			return nil, "is refused: " + r.Reason
		}
	}
	return nil, cmp.Or(o.Error, fmt.Sprintf("MCP server %s: it has no tool %q", o.Server, name))
}

// offers reads the tools of several servers at the same time.
func (s *mcpServers) offers(ctx context.Context, names []string) []offer {
	all := make([]offer, len(names))
	var asked sync.WaitGroup
	for i, name := range names {
		asked.Go(func() {
			client := s.client(name)
			defer client.Close()
			tools, refused, err := client.Tools(ctx)
			all[i] = offer{Server: name, Tools: slices.Concat([]mcp.Tool{}, tools), Refused: slices.Concat([]mcp.RefusedTool{}, refused)}
			if err != nil {
				all[i].Error = err.Error()
			}
		})
	}
	asked.Wait()
	return all
}

func newToolsList(p *output.Printer, s *mcpServers) *cobra.Command {
	return &cobra.Command{
		Use:   "list [SERVER...]",
		Short: "List the tools that MCP servers offer now, with their digests",
		Long: `Lists the tools that MCP servers offer now. A digest identifies the name, the title, the description, the
schemas and the annotations of a tool; -o json prints them too.

Exit codes: 0 done; 2 wrong usage, or a server that cannot be reached.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := s.load(cmd); err != nil {
				return err
			}
			for _, name := range names {
				if err := s.known(name); err != nil {
					return err
				}
			}
			if len(names) == 0 {
				names = sortedNames(s.config.MCPServers)
			}
			all := s.offers(cmd.Context(), names)
			if p.JSON {
				if err := output.WriteJSON(p.Out, output.Object{{Key: "servers", Value: all}}); err != nil {
					return err
				}
				return reached(all)
			}
			table := output.Table{Headers: []string{"TOOL", "DIGEST", "DESCRIPTION"}}
			for _, o := range all {
				for _, t := range o.Tools {
					table.Add(o.Server+"/"+t.Name, t.Digest, line(t.Description))
				}
			}
			p.Table(table)
			printTroubles(p, all)
			return reached(all)
		},
	}
}

// reached returns an error with the exit code 2 if a server could not be reached.
func reached(all []offer) error {
	if slices.ContainsFunc(all, func(o offer) bool { return o.Error != "" }) {
		return &output.Exit{Code: output.ExitUsage, Silent: true}
	}
	return nil
}

// printTroubles prints the errors of servers, and the tools that are refused. The table of tools
// does not contain them.
func printTroubles(p *output.Printer, all []offer) {
	for _, o := range all {
		for _, r := range o.Refused {
			p.Warnf("%s: the tool %s of %s: %s", p.Warn("refused"), r.Name, o.Server, r.Reason)
		}
		if o.Error != "" {
			p.Warnf("%s: %s", p.Bad("unreachable"), o.Error)
		}
	}
}

// line returns the beginning of a server's text, with hidden characters made visible.
func line(text string) string {
	quoted := fmt.Sprintf("%+q", strings.Join(strings.Fields(text), " "))
	quoted = quoted[1 : len(quoted)-1]
	if len(quoted) > 80 {
		quoted = quoted[:79] + "…"
	}
	return quoted
}

func newToolsCall(p *output.Printer, s *mcpServers) *cobra.Command {
	key := ""
	cmd := &cobra.Command{
		Use:   "call SERVER/TOOL [ARGUMENTS]",
		Short: "Call a tool of an MCP server once",
		Long: `Calls a tool of an MCP server and prints its result as JSON. ARGUMENTS are a JSON object; - is standard input. The
call is no step of a run: it is not stored, no rule of a pack holds for it, and it is not repeated.

Exit codes: 0 done; 1 the call failed, or it is not known whether it took effect; 2 wrong usage, or a
server that cannot be reached.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, tool, ok := strings.Cut(args[0], "/")
			if !ok || tool == "" {
				return output.Usage(fmt.Errorf("%q is no SERVER/TOOL", args[0]))
			}
			if err := s.load(cmd); err != nil {
				return err
			}
			if err := s.known(name); err != nil {
				return err
			}
			arguments, err := argumentsOf(args[1:])
			if err != nil {
				return output.Usage(err)
			}
			client := s.client(name)
			defer client.Close()
			result, err := client.Call(cmd.Context(), mcp.Call{Tool: tool, Arguments: arguments, IdempotencyKey: key})
			if fault, ok := errors.AsType[*mcp.Fault](err); ok {
				return called(p, fault)
			}
			return errors.Join(err, output.WriteJSON(p.Out, result))
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency key of the call, sent in _meta as dev.pawl/idempotency-key")
	return cmd
}

// argumentsOf returns the arguments of a call.
func argumentsOf(args []string) ([]byte, error) {
	if len(args) == 0 {
		return nil, nil
	}
	if args[0] != "-" {
		return []byte(args[0]), nil
	}
	return io.ReadAll(io.LimitReader(os.Stdin, maxArguments))
}

// maxArguments bounds the arguments that a call reads from standard input, in bytes. The rest is not read.
const maxArguments = 4 << 20

// called reports a call that failed.
func called(p *output.Printer, fault *mcp.Fault) error {
	code := output.ExitFault
	if fault.Code == mcp.CodeUnreachable || fault.Code == mcp.CodeArguments || fault.Code == mcp.CodeNoTool {
		code = output.ExitUsage
	}
	if p.JSON {
		return errors.Join(&output.Exit{Code: code, Silent: true}, output.WriteJSON(p.Out, output.Object{
			{Key: "code", Value: fault.Code}, {Key: "message", Value: fault.Message}, {Key: "unknown", Value: fault.Unknown},
		}))
	}
	err := error(fault)
	if fault.Unknown {
		err = fmt.Errorf("%w\nit is not known whether the call took effect", fault)
	}
	return &output.Exit{Code: code, Err: err}
}
