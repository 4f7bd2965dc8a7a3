package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/diagram"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
)

// graphFormats are the values of the flags --format and -o. The flag -o also takes table, which means mermaid.
var graphFormats = []string{"mermaid", "dot", "svg", "json"}

func newGraph(p *output.Printer) *cobra.Command {
	var output, strict, run string
	var at uint64
	format, c := "", &client{}
	cmd := &cobra.Command{
		Use:   "graph FILE | graph --run RUN",
		Short: "Draw a pack or a run as Mermaid, DOT, SVG or JSON",
		Long: `Draws the states and agents of a pack. With --run it draws the pack of a run with the run's visits,
its events and its current state.

Exit codes: 0 done; 1 the pack has errors; 2 the file could not be read.`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 1) == (run != "") || len(args) > 1 {
				return errors.New("name either a FILE or a run with --run")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if format == "" {
				format = output
			}
			if format == "table" {
				format = "mermaid"
			}
			p.JSON = format == "json"
			if err := checkChoice("format", format, graphFormats...); err != nil {
				return err
			}
			if run != "" {
				return c.With(func(conn *grpc.ClientConn) error { return drawRun(cmd.Context(), p, c, conn, run, at, format) })
			}
			return drawFile(p, args[0], strict, format)
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "mermaid, dot, svg or json (default: that of --output)")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "mermaid, dot, svg or json; table means mermaid")
	cmd.Flags().StringVar(&run, "run", "", "id of a run to draw instead of a file")
	cmd.Flags().Uint64Var(&at, "at", 0, "with --run: draw the run at the record with this seq; 0 = its current state")
	completeFrom(cmd, "format", graphFormats...)
	completeFrom(cmd, "output", graphFormats...)
	bindStrict(cmd, &strict)
	c.Bind(cmd)
	return cmd
}

func drawFile(p *output.Printer, path, strict, format string) error {
	content, err := readPack(path)
	if err != nil {
		return output.Usage(err)
	}
	loaded, found, err := pack.Load(content, pack.Options{Strict: strict})
	if err != nil {
		return output.Usage(err)
	}
	if loaded == nil {
		return refusedPack(p, path, found)
	}
	return printDiagram(p, diagram.Of(loaded), format)
}

// drawRun prints the diagram of the pack of a run. It marks the states and transitions through which the run went.
func drawRun(ctx context.Context, p *output.Printer, c *client, conn *grpc.ClientConn, run string, at uint64, format string) error {
	got, err := pawlv1.NewRunServiceClient(conn).GetRun(ctx, &pawlv1.GetRunRequest{Namespace: c.Namespace, RunId: run, AtSeq: at})
	if err != nil {
		return err
	}
	kept, err := pawlv1.NewPackServiceClient(conn).GetPack(ctx, &pawlv1.GetPackRequest{
		Namespace: c.Namespace, Pack: got.GetRun().GetPack().GetDigest(), IncludeContent: true,
	})
	if err != nil {
		return err
	}
	loaded, found, err := pack.Load(kept.GetContent(), pack.Options{Accepted: true})
	if err != nil {
		return err
	}
	if loaded == nil {
		return refusedPack(p, got.GetRun().GetPack().GetDigest(), found)
	}
	drawing := diagram.Of(loaded)
	drawing.Mark(marksOf(got.GetRun()))
	return printDiagram(p, drawing, format)
}

func marksOf(run *pawlv1.Run) diagram.Marks {
	marks := diagram.Marks{Visits: map[string]int64{}, Followed: map[[2]string]int64{}, Current: run.GetState()}
	for state, n := range run.GetVisits() {
		marks.Visits[state] = int64(n)
	}
	for _, e := range run.GetEdges() {
		marks.Followed[[2]string{e.GetState(), e.GetEvent()}] = int64(e.GetCount())
	}
	return marks
}

func printDiagram(p *output.Printer, d *diagram.Diagram, format string) error {
	switch format {
	case "json":
		return output.WriteJSON(p.Out, d)
	case "dot":
		p.Printf("%s", d.DOT())
	case "svg":
		p.Printf("%s", d.SVG())
	default:
		p.Printf("%s", d.Mermaid())
	}
	return nil
}

// refusedPack prints the errors of a pack that cannot be loaded, and returns the error of the command.
func refusedPack(p *output.Printer, path string, found []pack.Diagnostic) error {
	if p.JSON {
		if err := output.WriteJSON(p.Out, output.Object{{Key: "files", Value: []checked{{Path: path, Diagnostics: found}}}}); err != nil {
			return err
		}
		return output.Fault()
	}
	for _, d := range found {
		if d.Severity == pack.SeverityError {
			p.Warnf("%s:%d:%d: %s %s: %s", path, d.Line, d.Column, p.Bad("error"), d.Code, d.Message)
		}
	}
	return output.Fault()
}
