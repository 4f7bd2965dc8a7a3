package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/mcp"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/pack/source"
)

// compared is the result of comparing a tool in a pack with the tool that its MCP server offers now. A pack pins a
// tool by its digest.
type compared struct {
	Tool string `json:"tool"`
	// State is same, changed, missing, unpinned, unreachable or unconfigured. Unconfigured means that no server of
	// that name is configured; without a pin the tool may be one of a worker.
	State string `json:"state"`
	// Pinned is the digest in the pack. "" means that the pack does not pin the tool.
	Pinned string `json:"pinned"`
	// Offered is the digest of the tool that the server offers. "" means that it offers none.
	Offered string `json:"offered"`
	// Reason is the reason why the server does not offer the tool.
	Reason string `json:"reason,omitempty"`
	// Now is the tool that the server offers, if the pack pins another one.
	Now *mcp.Tool `json:"now,omitempty"`
}

// compare compares the tools SERVER/TOOL of a pack with the tools that their servers offer now. It returns the results
// sorted by tool name.
func (s *mcpServers) compare(ctx context.Context, loaded *pack.Pack) []compared {
	var names []string
	for tool := range loaded.Doc.Tools {
		if name, _, ok := strings.Cut(tool, "/"); ok && s.known(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	all, out := s.offers(ctx, names), []compared{}
	for _, tool := range sortedNames(loaded.Doc.Tools) {
		name, of, ok := strings.Cut(tool, "/")
		if !ok {
			continue
		}
		pinned := loaded.XPawl().Tools[tool].MCPDigest
		if i, there := slices.BinarySearch(names, name); there {
			out = append(out, compareTool(tool, pinned, of, &all[i]))
		} else {
			out = append(out, compared{Tool: tool, State: "unconfigured", Pinned: pinned, Reason: s.known(name).Error()})
		}
	}
	return out
}

// ofServers returns the tools that belong to MCP servers. It leaves out tools that may belong to workers.
func ofServers(tools []compared) []compared {
	return slices.DeleteFunc(tools, func(c compared) bool { return c.State == "unconfigured" && c.Pinned == "" })
}

func compareTool(tool, pinned, name string, from *offer) compared {
	c := compared{Tool: tool, Pinned: pinned}
	now, why := from.tool(name)
	switch {
	case from.Error != "":
		c.State, c.Reason = "unreachable", why
		return c
	case now == nil:
		c.State, c.Reason = "missing", why
		return c
	case pinned == "":
		c.State = "unpinned"
	case pinned != now.Digest:
		c.State, c.Now = "changed", now
	default:
		c.State = "same"
	}
	c.Offered = now.Digest
	return c
}

// codeNoServer is the code of a tool whose server is not configured.
const codeNoServer = "MCP_NO_SERVER"

// check returns an error for each SERVER/TOOL of a pack whose server is not configured or cannot be reached, that its
// server does not offer, or that it offers with another digest than the pack pins.
func (s *mcpServers) check(ctx context.Context, loaded *pack.Pack) ([]pack.Diagnostic, error) {
	var found []pack.Diagnostic
	var err error
	add := func(code, hint, message string, at ...string) {
		d := pack.Diagnostic{Severity: pack.SeverityError, Code: code, Pointer: source.Pointer(at...), Message: message, Hint: hint}
		var fault error
		d.Line, d.Column, fault = loaded.Position(d.Pointer)
		err = errors.Join(err, fault)
		found = append(found, d)
	}
	for _, c := range s.compare(ctx, loaded) {
		switch c.State {
		case "unconfigured":
			add(codeNoServer, "Add the server to mcp_servers, or check the spelling.", fmt.Sprintf("%q: %s", c.Tool, c.Reason), "tools", c.Tool)
		case "unreachable":
			add(mcp.CodeUnreachable, "", fmt.Sprintf("%q: %s", c.Tool, c.Reason), "tools", c.Tool)
		case "missing":
			add(mcp.CodeNoTool, "pawl tools list prints the tools that it has.", fmt.Sprintf("%q: %s", c.Tool, c.Reason), "tools", c.Tool)
		case "changed":
			add(mcp.CodeChanged, "Look at pawl tools diff, and accept it with pawl tools pin.", fmt.Sprintf("the server's tool %q has the digest %s now", c.Tool, c.Offered),
				"workflow", "engine", "x_pawl", "tools", c.Tool, "mcp_digest")
		}
	}
	slices.SortStableFunc(found, func(a, b pack.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return found, err
}

// loadPack reads a pack file that has no errors.
func loadPack(p *output.Printer, path string) (*pack.Pack, error) {
	content, err := readPack(path)
	if err != nil {
		return nil, output.Usage(err)
	}
	loaded, found, err := pack.Load(content, pack.Options{})
	if err != nil {
		return nil, err
	}
	if loaded == nil {
		for _, d := range found {
			printDiagnostic(p, path, d)
		}
		return nil, output.Usage(fmt.Errorf("%s: is no pack without errors", path))
	}
	return loaded, nil
}

func newToolsDiff(p *output.Printer, s *mcpServers) *cobra.Command {
	return &cobra.Command{
		Use:   "diff FILE",
		Short: "Compare the tools that a pack pins with what its MCP servers offer now",
		Long: `Compares the digests in a pack (mcp_digest) with the tools that the MCP servers offer now. The sidecar refuses
calls of tools that are changed or missing. -o json prints the changed tools as they are now.
A pinned tool whose server is not configured counts as missing, with the state unconfigured.

Exit codes: 0 no difference; 1 a tool is changed or missing; 2 wrong usage, or a server that cannot be
reached.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.load(cmd); err != nil {
				return err
			}
			loaded, err := loadPack(p, args[0])
			if err != nil {
				return err
			}
			tools := ofServers(s.compare(cmd.Context(), loaded))
			if p.JSON {
				err = output.WriteJSON(p.Out, output.Object{{Key: "tools", Value: tools}})
			} else {
				printCompared(p, tools)
			}
			return errors.Join(err, differs(tools))
		},
	}
}

// differs returns the error of the command, with its exit code, if a server could not be reached or is not configured,
// does not offer a tool, or offers one that differs from the pin.
func differs(tools []compared) error {
	has := func(state string) bool {
		return slices.ContainsFunc(tools, func(c compared) bool { return c.State == state })
	}
	switch {
	case has("unreachable"):
		return &output.Exit{Code: output.ExitUsage, Silent: true}
	case has("changed"), has("missing"), has("unconfigured"):
		return output.Fault()
	}
	return nil
}

func printCompared(p *output.Printer, tools []compared) {
	table := output.Table{Headers: []string{"TOOL", "STATE", "PINNED", "OFFERED"}}
	for _, c := range tools {
		table.Add(c.Tool, c.State, c.Pinned, c.Offered)
	}
	p.Table(table)
	for _, c := range tools {
		if c.Reason != "" {
			p.Warnf("%s: %s", p.Bad(c.Tool), c.Reason)
		}
		if c.Now != nil {
			p.Warnf("%s: is another tool now: %s", p.Bad(c.Tool), line(c.Now.Description))
		}
	}
}

func newToolsPin(p *output.Printer, s *mcpServers) *cobra.Command {
	return &cobra.Command{
		Use:   "pin FILE [TOOL...]",
		Short: "Write the digests of the tools that MCP servers offer now into a pack",
		Long: `Writes the digests of the tools that MCP servers offer now into a pack, as mcp_digest of each SERVER/TOOL that the pack
declares, or of the tools that are named. The sidecar then refuses calls while a server offers another tool. All other text of the file
stays as it is. Nothing is written if a tool is missing. Look at the tools first: pawl tools list -o json.

Exit codes: 0 done; 1 a tool is missing; 2 wrong usage, or a server that cannot be reached.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "-" {
				return errors.New("FILE is written, and standard input (-) cannot be: name a file")
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.load(cmd); err != nil {
				return err
			}
			loaded, err := loadPack(p, args[0])
			if err != nil {
				return err
			}
			tools, digests := ofServers(s.compare(cmd.Context(), loaded)), map[string]string{}
			if tools, err = selected(tools, args[1:]); err != nil {
				return output.Usage(err)
			}
			if len(tools) == 0 {
				return output.Usage(fmt.Errorf("%s: nothing was written: the pack has no tool of a configured MCP server; servers: %s", args[0], strings.Join(sortedNames(s.config.MCPServers), ", ")))
			}
			for _, c := range tools {
				if c.Offered == "" {
					return &output.Exit{Code: output.ExitCode(differs(tools)), Err: fmt.Errorf("%s: nothing was written: %s", c.Tool, c.Reason)}
				}
				digests[c.Tool] = c.Offered
			}
			content, err := pack.Pin(loaded, digests)
			if err != nil {
				return output.Usage(fmt.Errorf("%s: %w", args[0], err))
			}
			if err := replaceFile(args[0], content); err != nil {
				return err
			}
			if p.JSON {
				return output.WriteJSON(p.Out, output.Object{{Key: "path", Value: args[0]}, {Key: "tools", Value: tools}})
			}
			for _, c := range tools {
				p.Printf("%s  %s\n", p.Bold(c.Tool), c.Offered)
			}
			return nil
		},
	}
}

// selected returns the tools with the given names. It returns all if there are no names.
func selected(tools []compared, names []string) ([]compared, error) {
	if len(names) == 0 {
		return tools, nil
	}
	var out, known = []compared{}, []string{}
	for _, c := range tools {
		known = append(known, c.Tool)
		if slices.Contains(names, c.Tool) {
			out = append(out, c)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("%q is no tool of the pack and of a configured MCP server; tools: %s", name, strings.Join(known, ", "))
		}
	}
	return out, nil
}
