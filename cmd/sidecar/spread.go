package main

import (
	"errors"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/app"
	"github.com/pawl-dev/pawl/internal/cli"
)

func newSpread(p *cli.Printer) *cobra.Command {
	var data app.Data
	cmd := &cobra.Command{
		Use:   "spread --store URL",
		Short: "Give each namespace of a database a partition of its own",
		Long: `What a sidecar alone keeps in a database is in partition 0, whatever its namespace. This gives
each namespace but default another partition, the one with the fewest, so that several
sidecars (serve --peer-listen) share the load. All sidecars are stopped; one alone does not
serve the store any more afterwards.

Everything is checked before and after, and goes in one transaction: broken off at any
moment nothing has moved, or everything; call it again. Runs, cursors, ids, consumers and
webhooks stay what they are. The next backup has to be of everything (backup --full). It takes
as much room again until the database's vacuum gives it back. There is no way back.

Where runs can be erased it is refused: the keys of all runs are together.

Exit codes: 0 done, or nothing to do; 1 a fault was found; 2 it cannot be done now.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !data.Given() {
				return cli.Usage(errors.New("--store is required: the database"))
			}
			done, err := app.Spread(cmd.Context(), data.Database, func(what string) { p.Warnf("%s", what) })
			if err != nil {
				return printReport(p, done.Report, err)
			}
			return printSpread(p, done)
		},
	}
	cmd.Flags().Var(&data.Database.URL, "store", "PostgreSQL database of a store that no sidecar has open: postgres://USER@HOST[:PORT]/DATABASE")
	databaseFlags(cmd, &data)
	return cmd
}

func printSpread(p *cli.Printer, done app.Spreading) error {
	places := []any{}
	for _, name := range slices.Sorted(maps.Keys(done.Places)) {
		places = append(places, cli.Object{{Key: "namespace", Value: name}, {Key: "partition", Value: done.Places[name]}})
		if !p.JSON {
			p.Printf("%s: partition %d\n", name, done.Places[name])
		}
	}
	switch {
	case p.JSON && len(places) == 0:
		return cli.WriteJSON(p.Out, cli.Object{{Key: "moved", Value: places}})
	case p.JSON:
		return cli.WriteJSON(p.Out, cli.Object{{Key: "moved", Value: places}, {Key: "report", Value: reportObject(done.Report)}})
	case len(places) == 0:
		p.Printf("partition 0 has no namespace but default: nothing to do\n")
		return nil
	}
	return printReport(p, done.Report, nil)
}
