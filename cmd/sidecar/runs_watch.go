package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/export"
	"github.com/pawl-dev/pawl/internal/output"
)

func newRunsWatch(p *output.Printer, c *client) *cobra.Command {
	var filter runFilter
	var kinds, events []string
	var format string
	req := &pawlv1.StreamTransitionsRequest{Follow: true}
	cmd := &cobra.Command{
		Use:   "watch [RUN]",
		Short: "Stream the records of one run or of many as they are committed",
		Long: `Streams records as they are committed. With RUN, it ends when that run has ended. Without, it streams
the records of all runs that the flags select. With -o json, it prints one record per line. With
--after-cursor it continues after an earlier record without gap or repeat. With --format agentic, it
prints the events of RFC-103 as JSON, with their dedupe keys; --event selects some of them.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			req.Namespace = c.Namespace
			if err := checkFormat(format, events, kinds); err != nil {
				return output.Usage(err)
			}
			if len(kinds) > 0 {
				if req.Kinds, err = kindsOf(kinds); err != nil {
					return err
				}
			}
			if len(args) == 1 {
				req.RunId = args[0]
			} else if req.Filter, err = filter.proto(); err != nil {
				return err
			}
			return c.Runs(func(runs pawlv1.RunServiceClient) error {
				if format == formatAgentic {
					req.Kinds = export.AgenticKinds
					events := &export.Agentic{Runs: runs, Namespace: c.Namespace, Types: events}
					return watch(cmd.Context(), runs, req, func(r *pawlv1.Record) error { return printEvent(cmd.Context(), p, events, r) })
				}
				return watch(cmd.Context(), runs, req, func(r *pawlv1.Record) error { return printWatched(p, r) })
			})
		},
	}
	filter.bind(cmd)
	c.CompleteFlag(cmd, "pack", c.PackWords)
	fs := cmd.Flags()
	fs.StringSliceVar(&kinds, "kind", nil, "only records of these kinds (default: TRANSITION,ENDED)")
	fs.StringVar(&req.AfterCursor, "after-cursor", "", "start after this cursor")
	fs.Uint64Var(&req.AfterSeq, "after-seq", 0, "start after this seq of RUN")
	fs.StringVar(&format, "format", formatRecords, "records, or agentic for the events of RFC-103")
	fs.StringSliceVar(&events, "event", nil, "with --format agentic: only these events (default: all)")
	completeFrom(cmd, "format", formatRecords, formatAgentic)
	completeFrom(cmd, "event", export.Types...)
	fs.BoolVar(&req.Follow, "follow", true, "continue with new records")
	completeFrom(cmd, "kind", enumNames(pawlv1.RecordKind_name, "RecordKind")...)
	c.CompleteArgs(cmd, c.RunWords)
	return cmd
}

// The values of the flag --format.
const (
	formatRecords = "records"
	formatAgentic = "agentic"
)

func checkFormat(format string, events, kinds []string) error {
	switch {
	case format != formatRecords && format != formatAgentic:
		return fmt.Errorf("--format %q is neither %s nor %s", format, formatRecords, formatAgentic)
	case format == formatRecords && len(events) > 0:
		return errors.New("--event goes with --format agentic; records are selected by --kind")
	case format == formatAgentic && len(kinds) > 0:
		return errors.New("--kind goes with --format records; events are selected by --event")
	}
	return export.CheckTypes(events)
}

// printEvent prints the RFC-103 event that belongs to a record. Some records have no event.
func printEvent(ctx context.Context, p *output.Printer, events *export.Agentic, r *pawlv1.Record) error {
	event, err := events.Event(ctx, r)
	if err != nil || event == nil {
		return err
	}
	return output.WriteLine(p.Out, event.Object())
}

// watch calls show for each record, until the stream or the context ends.
func watch(ctx context.Context, runs pawlv1.RunServiceClient, req *pawlv1.StreamTransitionsRequest, show func(*pawlv1.Record) error) error {
	stream, err := runs.StreamTransitions(ctx, req)
	if err != nil {
		return err
	}
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) || err != nil && ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if r := item.GetRecord(); r != nil {
			if err := show(r); err != nil {
				return err
			}
		}
	}
}

func printWatched(p *output.Printer, r *pawlv1.Record) error {
	if p.JSON {
		return output.WriteLine(p.Out, output.Record(r))
	}
	p.Printf("%s  %s\n", r.GetRunId(), strings.Join(recordCells(r), "  "))
	return nil
}
