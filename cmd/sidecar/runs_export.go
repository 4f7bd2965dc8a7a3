package main

import (
	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/export"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsExport(p *output.Printer, c *client) *cobra.Command {
	format := exportWorkspace
	cmd := &cobra.Command{
		Use:   "export RUN DIR | export RUN FILE --format file",
		Short: "Export the workspace of a run, or the whole run as one file",
		Long: `Writes the workspace of a run (RFC-103) in its current state into DIR, which must be empty or absent:
context.md (pack, variables, input), plan.md and memory.md (the artifacts of those names, else the
conversation of persistent states), trace.jsonl (every record) and artifacts/ (each artifact as a file,
with blobs).

With --format file, it writes the whole run into one portable file for 'pawl runs import' and
'pawl runs verify'.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkChoice("format", format, exportWorkspace, exportPortable); err != nil {
				return err
			}
			if format == exportPortable {
				return c.Runs(func(runs pawlv1.RunServiceClient) error {
					size, err := exportFile(cmd.Context(), runs, c.Namespace, args[0], args[1])
					if err != nil {
						return err
					}
					return printExported(p, args[1], size)
				})
			}
			return c.With(func(conn *grpc.ClientConn) error {
				w := &export.Workspace{
					Runs: pawlv1.NewRunServiceClient(conn), Packs: pawlv1.NewPackServiceClient(conn), Namespace: c.Namespace,
				}
				written, err := w.Export(cmd.Context(), args[0], args[1])
				if err != nil {
					return err
				}
				return printExport(p, args[1], written)
			})
		},
	}
	cmd.Flags().StringVar(&format, "format", format, "workspace (the directory of RFC-103) or file (one portable file)")
	completeFrom(cmd, "format", exportWorkspace, exportPortable)
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// These are the values of the flag --format of `runs export`.
const (
	exportWorkspace = "workspace"
	exportPortable  = "file"
)

func printExported(p *output.Printer, path string, size int64) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "file", Value: path}, {Key: "bytes", Value: size}})
	}
	p.Printf("%s: %d bytes\n", path, size)
	return nil
}

func printExport(p *output.Printer, dir string, written export.Written) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{
			{Key: "dir", Value: dir}, {Key: "files", Value: written.Files}, {Key: "missing_blobs", Value: append([]string{}, written.Missing...)},
		})
	}
	for _, name := range written.Files {
		p.Printf("%s/%s\n", dir, name)
	}
	for _, ref := range written.Missing {
		p.Warnf("not there: %s", ref)
	}
	return nil
}
