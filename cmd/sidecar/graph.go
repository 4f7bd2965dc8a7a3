package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/cli"
	"github.com/pawl-dev/pawl/internal/pack"
)

func newGraph(p *cli.Printer) *cobra.Command {
	format, strict := "mermaid", ""
	cmd := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw a pack's states and agents as Mermaid, DOT or JSON",
		Long: `Draws a pack's states and agents. Exit codes: 0 drawn; 1 the pack has errors; 2 it
could not be read.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if p.JSON {
				format = "json"
			}
			if format != "mermaid" && format != "dot" && format != "json" {
				return cli.Usage(fmt.Errorf("--format %q is none of mermaid, dot, json", format))
			}
			content, err := readPack(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			loaded, found, err := pack.Load(content, pack.Options{Strict: strict})
			if err != nil {
				return cli.Usage(err)
			}
			if loaded == nil {
				return refusedPack(p, args[0], found)
			}
			return printDiagram(p, loaded.Diagram(), format)
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "mermaid, dot or json (also -o json)")
	completeFrom(cmd, "format", "mermaid", "dot", "json")
	bindStrict(cmd, &strict)
	return cmd
}

func printDiagram(p *cli.Printer, d *pack.Diagram, format string) error {
	switch format {
	case "json":
		return cli.WriteJSON(p.Out, d)
	case "dot":
		p.Printf("%s", d.DOT())
	default:
		p.Printf("%s", d.Mermaid())
	}
	return nil
}

// refusedPack tells the findings about a pack that cannot be used.
func refusedPack(p *cli.Printer, path string, found []pack.Diagnostic) error {
	if p.JSON {
		if err := cli.WriteJSON(p.Out, cli.Object{{Key: "files", Value: []checked{{Path: path, Diagnostics: found}}}}); err != nil {
			return err
		}
		return cli.Fault()
	}
	for _, d := range found {
		if d.Severity == pack.SeverityError {
			p.Warnf("%s:%d:%d: %s %s: %s", path, d.Line, d.Column, p.Bad("error"), d.Code, d.Message)
		}
	}
	return cli.Fault()
}
