package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsImport(p *output.Printer, c *client) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Import an exported run to inspect, compare or fork it",
		Long: `Imports a run from a file of 'pawl runs export --format file'. It checks the whole file before it
stores anything. An imported run is read-only: it executes no turns and accepts no input.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				got, err := importFile(cmd.Context(), runs, c.Namespace, args[0])
				if err != nil {
					return err
				}
				if p.JSON {
					return output.WriteJSON(p.Out, output.Message(got))
				}
				again := ""
				if got.GetDuplicate() {
					again = " (it was there already)"
				}
				p.Printf("%s%s\n", got.GetRun().GetRunId(), again)
				return nil
			})
		},
	}
}

// importPiece is the size of one message of an import, in bytes.
const importPiece = 256 << 10

func importFile(ctx context.Context, runs pawlv1.RunServiceClient, ns, path string) (got *pawlv1.ImportRunResponse, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := runs.ImportRun(ctx)
	if err != nil {
		return nil, err
	}
	piece := make([]byte, importPiece)
	for sent := false; ; sent = true {
		n, err := io.ReadFull(file, piece)
		if n > 0 || !sent { // the first message is sent even if the file is empty
			// io.EOF means that the server has refused the import. CloseAndRecv returns the reason.
			if err := stream.Send(&pawlv1.ImportRunRequest{Namespace: ns, Data: piece[:n]}); err != nil {
				break
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return stream.CloseAndRecv()
}

// exportFile writes the portable file of a run. The file appears at path only when it is complete.
func exportFile(ctx context.Context, runs pawlv1.RunServiceClient, ns, run, path string) (size int64, err error) {
	if _, err := os.Stat(path); err == nil {
		return 0, output.Usage(fmt.Errorf("%s exists", path))
	}
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(part.Name()))
		}
	}()
	size, err = receive(ctx, runs, &pawlv1.ExportRunRequest{Namespace: ns, RunId: run}, part)
	if err = errors.Join(err, part.Close()); err != nil {
		return 0, err
	}
	return size, os.Rename(part.Name(), path)
}

func receive(ctx context.Context, runs pawlv1.RunServiceClient, req *pawlv1.ExportRunRequest, out io.Writer) (int64, error) {
	stream, err := runs.ExportRun(ctx, req)
	if err != nil {
		return 0, err
	}
	for size := int64(0); ; {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			return 0, err
		}
		if _, err := out.Write(piece.GetData()); err != nil {
			return 0, err
		}
		size += int64(len(piece.GetData()))
	}
}
