package main

import (
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newPartitionsSplit(p *output.Printer) *cobra.Command {
	var data server.Data
	cmd := &cobra.Command{
		Use:   "split --store URL",
		Short: "Move each namespace of a database to a partition of its own",
		Long: `A sidecar without a cluster stores all namespaces of a database in partition 0. This command moves
each namespace except default to another partition, the one with the fewest namespaces, so that
several sidecars (serve --peer-listen) share the load. Stop all sidecars first. Afterwards
the store needs --peer-listen: a sidecar without it refuses to serve it.

The store is checked before and after. All moves are one transaction: an interrupted command has
moved everything or nothing, and can be repeated. Runs, cursors, ids, consumers and webhooks do
not change. The next backup must be a full one (backup --full). The database needs twice the
space until VACUUM removes the old rows. The split cannot be undone.

A store with erasable runs is refused: the keys of all its runs are in one file.

Exit codes: 0 done, or nothing to do; 1 a fault was found; 2 it cannot be done now.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !data.IsSet() {
				return output.Usage(errors.New("--store is required: the database"))
			}
			done, err := server.SplitPartitions(cmd.Context(), data.Database, func(what string) { p.Warnf("%s", what) })
			if err != nil {
				return printReport(p, done.Report, err)
			}
			return printSpread(p, done)
		},
	}
	cmd.Flags().Var(&data.Database.URL, "store", "PostgreSQL database that no sidecar has open: postgres://USER@HOST[:PORT]/DATABASE (required)")
	databaseFlags(cmd, &data)
	return cmd
}

func printSpread(p *output.Printer, done server.SplitResult) error {
	places := []any{}
	for _, name := range slices.Sorted(maps.Keys(done.Placements)) {
		places = append(places, output.Object{{Key: "namespace", Value: name}, {Key: "partition", Value: done.Placements[name]}})
		if !p.JSON {
			p.Printf("%s: partition %d\n", name, done.Placements[name])
		}
	}
	switch {
	case p.JSON && len(places) == 0:
		return output.WriteJSON(p.Out, output.Object{{Key: "moved", Value: places}})
	case p.JSON:
		return output.WriteJSON(p.Out, output.Object{{Key: "moved", Value: places}, {Key: "report", Value: reportObject(done.Report)}})
	case len(places) == 0:
		p.Printf("partition 0 has no namespace but default: nothing to do\n")
		return nil
	}
	return printReport(p, done.Report, nil)
}
