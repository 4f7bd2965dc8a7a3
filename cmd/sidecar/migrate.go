package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/app"
	"github.com/pawl-dev/pawl/internal/cli"
)

func newMigrate(p *cli.Printer) *cobra.Command {
	var data app.Data
	to := ""
	cmd := &cobra.Command{
		Use:   "migrate DIR",
		Short: "Bring a data directory of the format before to this program's",
		Long: `Makes a store of this program's format from one of the format before, whose
sidecar is stopped. Entries, packs, blobs, subscriptions and who holds a step are
copied as they are, everything else is made anew from the entries, and all of it is
proven ('sidecar check') before it counts.

Without --to the new directory takes the old one's place, and the old one is kept
beside it as DIR.format1, unchanged: remove it once you need no way back. It takes as
much room again. Broken off at any moment, call it again.

Exit codes: 0 done, or nothing to do; 1 the old store is not in order; 2 the
directory cannot be migrated.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data.Dir = args[0]
			done, err := app.Migrate(cmd.Context(), data, to)
			if errors.Is(err, app.ErrUnusable) {
				return cli.Usage(err)
			}
			if err != nil {
				return err
			}
			return printMigration(p, done)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "new directory, empty or absent, instead of the old one's place")
	completeDir(cmd, "to")
	dataKeyFlag(cmd, &data)
	return cmd
}

func printMigration(p *cli.Printer, m app.Migration) error {
	if p.JSON {
		return cli.WriteJSON(p.Out, cli.Object{
			{Key: "from", Value: m.From}, {Key: "to", Value: m.To}, {Key: "dir", Value: m.Dir}, {Key: "old", Value: m.Old},
			{Key: "rows", Value: m.Rows}, {Key: "runs", Value: m.Repair.Runs}, {Key: "entries", Value: m.Repair.Entries},
		})
	}
	if m.From == m.To {
		p.Printf("%s has format %d already: nothing to do\n", m.Dir, m.To)
		return nil
	}
	p.Printf("%s: format %d to %d: %d rows copied, %d runs made anew from %d entries, all in order\n%s is the old directory\n",
		m.Dir, m.From, m.To, m.Rows, m.Repair.Runs, m.Repair.Entries, m.Old)
	return nil
}
