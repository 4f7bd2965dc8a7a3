package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newCheck(p *output.Printer) *cobra.Command {
	var data server.Data
	c, repair, online := &client{}, false, false
	cmd := &cobra.Command{
		Use:   "check --data DIR | check --store URL | check --online [--addr ADDR]",
		Short: "Check every invariant of a store",
		Long: `Opens a data directory or a database that no sidecar has open and checks every invariant: hash
chains, consecutive seqs, indexes, timers and cursors, and that all rows equal the replay of the
records. It prints counts, or the first fault.

With --online, the running sidecar checks its own store while it serves. That uses at most about half a
core and needs the scope store:read. The command prints the progress on standard error.

With --repair, the command first rebuilds every row that differs from the replay of its run's records,
and prints how many rows of each kind it rebuilt. It never writes records: it names a run with damaged
records and leaves it unchanged.

It checks the partitions of a database in turn. Counts are over all partitions. A line about a
partition other than the first begins with its number.

Exit codes: 0 in order; 1 a fault was found; 2 the store cannot be opened, for example because the disk
is full, or the sidecar cannot be reached.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(exclusive(cmd, "data", "store", "addr"), exclusive(cmd, "data", "store", "online"), exclusive(cmd, "online", "repair")); err != nil {
				return err
			}
			if online {
				return checkOnline(cmd.Context(), p, c)
			}
			if !data.IsSet() {
				return output.Usage(errors.New("--data is required: the directory of a store; or --store for a database, or --online for that of a sidecar"))
			}
			if repair {
				if err := runRepair(cmd.Context(), p, data); err != nil {
					return err
				}
			}
			report, err := server.Check(cmd.Context(), data)
			return printReport(p, report, err)
		},
	}
	dataFlag(cmd, &data, "data directory that no sidecar has open")
	storeFlag(cmd, &data)
	c.BindTarget(cmd)
	cmd.Flags().BoolVar(&online, "online", false, "check the store of the running sidecar at --addr")
	cmd.Flags().BoolVar(&repair, "repair", false, "rebuild rows that differ from the replay of the records")
	return cmd
}

// checkOnline asks a running sidecar to check its store, and prints the result.
func checkOnline(ctx context.Context, p *output.Printer, c *client) error {
	return c.Store(func(store pawlv1.StoreServiceClient) error {
		stream, err := store.CheckStore(ctx, &pawlv1.CheckStoreRequest{})
		if err != nil {
			return err
		}
		for {
			got, err := stream.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return errors.New("the sidecar ended the check without a result")
			case err != nil:
				return err
			case got.GetFault() != nil:
				return printReport(p, server.CheckReport{}, server.InPart(int32(got.GetFault().GetPartition()), server.CheckFaultOf(got.GetFault())))
			case got.GetDone() != nil:
				return printReport(p, server.CheckReportOf(got.GetDone()), nil)
			}
			p.Warnf("in order so far: runs %d, records %d", got.GetProgress().GetRuns(), got.GetProgress().GetRecords())
		}
	})
}

// runRepair repairs a store and prints on standard error what was repaired, never as JSON, because the report of the
// check follows on standard output. If the repair fails, no check follows, and runRepair reports the error itself.
func runRepair(ctx context.Context, p *output.Printer, data server.Data) error {
	err := server.Repair(ctx, data, func(part int32, done server.CheckRepair) { printRepair(p, ofPart(part), done) })
	if err != nil {
		err = printReport(p, server.CheckReport{}, err)
	}
	return err
}

// printRepair prints what was repaired in a partition.
func printRepair(p *output.Printer, where string, done server.CheckRepair) {
	for _, kind := range slices.Sorted(maps.Keys(done.Rows)) {
		row := done.Rows[kind]
		p.Warnf("%srepaired %s: %d made, %d changed, %d removed", where, kind, row.Made, row.Changed, row.Removed)
	}
	for _, fault := range done.Broken {
		p.Warnf("%sleft as it is: %s", where, fault)
	}
	p.Warnf("%s%d runs replayed from %d entries", where, done.Runs, done.Entries)
}

// ofPart returns the beginning of a line about a partition. It returns "" for the first partition, because most stores have no other.
func ofPart(part int32) string {
	if part == 0 {
		return ""
	}
	return fmt.Sprintf("partition %d: ", part)
}

func printReport(p *output.Printer, r server.CheckReport, err error) error {
	var fault *server.CheckFault
	switch {
	case errors.As(err, &fault):
		return printFault(p, fault, server.PartOf(err))
	case errors.Is(err, server.ErrUnusable):
		return output.Usage(err)
	case err != nil:
		return err
	case p.JSON:
		return output.WriteJSON(p.Out, output.Object{{Key: "ok", Value: true}, {Key: "report", Value: reportObject(r)}})
	}
	p.Printf("%s: runs %d, records %d, commits %d, artifact versions %d, timers %d, packs %d\n",
		p.Good("in order"), r.Runs, r.Records, r.Entries, r.Artifacts, r.Timers, r.Packs)
	return nil
}

func reportObject(r server.CheckReport) output.Object {
	return output.Object{
		{Key: "runs", Value: r.Runs}, {Key: "records", Value: r.Records}, {Key: "entries", Value: r.Entries},
		{Key: "checkpoints", Value: r.Checkpoints}, {Key: "artifacts", Value: r.Artifacts}, {Key: "messages", Value: r.Messages},
		{Key: "ids", Value: r.IDs}, {Key: "timers", Value: r.Timers}, {Key: "outbox", Value: r.Outbox},
		{Key: "ready", Value: r.Ready}, {Key: "indexes", Value: r.Indexes}, {Key: "packs", Value: r.Packs},
	}
}

func printFault(p *output.Printer, f *server.CheckFault, part int32) error {
	if !p.JSON {
		p.Printf("%s: %s%s\n", p.Bad("fault"), ofPart(part), f)
		return output.Fault()
	}
	err := output.WriteJSON(p.Out, output.Object{{Key: "ok", Value: false}, {Key: "fault", Value: output.Object{
		{Key: "partition", Value: part}, {Key: "namespace", Value: f.Namespace}, {Key: "run", Value: f.Run}, {Key: "seq", Value: f.Seq},
		{Key: "row", Value: f.Row}, {Key: "detail", Value: f.Detail},
	}}})
	return errors.Join(err, output.Fault())
}
