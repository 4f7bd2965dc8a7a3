package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newMigrate(p *output.Printer) *cobra.Command {
	var data server.Data
	from, to, part := "", "", int32(0)
	cmd := &cobra.Command{
		Use:   "migrate DIR | migrate --from DIR --to URL | migrate --from URL --to DIR",
		Short: "Upgrade a data directory to the current format, or copy a store",
		Long: `With --from, the command copies a store: a directory into a PostgreSQL database,
postgres://USER@HOST[:PORT]/DATABASE, or a database into a new directory. Stop the sidecar first. The
command copies all rows unchanged, with the keys of erasable runs, then checks both stores and compares
them. A database gets everything or nothing. A directory gets its name when it is complete and
checked. You can repeat an interrupted command. The source is unchanged and remains the same store: never serve
both, and remove the source, or values erased in the copy remain there. An encrypted directory needs
--encryption-key-file. Pawl does not encrypt a database. A store of several partitions becomes one
directory for each --partition, and their numbers and cursors are not valid in another directory.

With DIR, the command upgrades a directory of the previous format. Stop the sidecar first. It copies
entries, packs, blobs, subscriptions and the holders of steps unchanged and rebuilds everything else from
the entries. It checks the result ('pawl check') before it takes effect.

Without --to, the new directory replaces the old one. The old one is kept beside it as DIR.format1. Remove it
when you no longer need to go back. The upgrade needs as much free space as the store has. You can
repeat an interrupted upgrade.

Exit codes: 0 done, or nothing to do; 1 the old store has a fault; 2 the directory cannot be
migrated, for example because the disk is full.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from != "" {
				data.Database.Part, data.Database.Only = part, cmd.Flags().Changed("partition")
				return runMove(cmd, p, args, from, to, data)
			}
			if cmd.Flags().Changed("partition") {
				return output.Usage(errNoParts)
			}
			if len(args) == 0 {
				return output.Usage(errors.New("name the directory, or both places with --from and --to"))
			}
			data.Dir = args[0]
			done, err := server.Migrate(cmd.Context(), data, to)
			if errors.Is(err, server.ErrUnusable) {
				return output.Usage(explainReplace(err, data.Dir))
			}
			if err != nil {
				return explainReplace(err, data.Dir)
			}
			return printMigration(p, done)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "directory or database to copy")
	cmd.Flags().StringVar(&to, "to", "", "new directory, empty or absent (default: replace DIR); with --from: directory or database to create the store in")
	cmd.Flags().Int32Var(&part, "partition", 0, "with --from URL: number of the partition to copy")
	completeDir(cmd, "from")
	completeDir(cmd, "to")
	dataKeyFlag(cmd, &data)
	databaseFlags(cmd, &data)
	return cmd
}

var errNoParts = errors.New("--partition is of the database that --from names")

// runMove copies a store to another place.
func runMove(cmd *cobra.Command, p *output.Printer, args []string, from, to string, data server.Data) error {
	if len(args) > 0 || to == "" {
		return output.Usage(errors.New("--from takes --to and no DIR: both places are named"))
	}
	source, target := server.MoveLocations(from, to, data)
	if data.Database.Only && source.Dir != "" {
		return output.Usage(errNoParts)
	}
	done, err := server.Move(cmd.Context(), source, target, func(what string) { p.Warnf("%s", what) })
	if err != nil {
		return printReport(p, done.Report, explainReplace(err, to))
	}
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{
			{Key: "from", Value: done.From}, {Key: "to", Value: done.To}, {Key: "before", Value: done.Before}, {Key: "report", Value: reportObject(done.Report)},
		})
	}
	if done.Before {
		p.Printf("%s has it already\n", done.To)
	}
	p.Printf("%s is the same store as %s now: never serve both\n", done.To, done.From)
	return printReport(p, done.Report, nil)
}

func printMigration(p *output.Printer, m server.Migration) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{
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
