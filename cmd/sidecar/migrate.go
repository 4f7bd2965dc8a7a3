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
		Short: "Bring a data directory to this program's format, or a store to another place",
		Long: `With --from it makes the same store in another place: of a directory in a PostgreSQL
database, postgres://USER@HOST[:PORT]/DATABASE, or of a database in a directory, which is
empty or absent. Its sidecar is stopped. All pairs are copied as they are, with the keys of
runs that can be erased; both stores are checked, and compared. A database has all of it or
nothing, a directory has its name once it is whole and proven: broken off at any moment, call
it again. The first place is left as it was, and is the same store: never serve both, and
remove it, or what is erased in the one stays in the other. An encrypted directory is opened,
or made, with --encryption-key-file; in a database nothing is encrypted by Pawl. A store of several
partitions becomes one directory for each, --partition by --partition: their numbers and
cursors are not those of one directory.

With DIR it makes a store of this program's format from one of the format before, whose
sidecar is stopped. Entries, packs, blobs, subscriptions and who holds a step are
copied as they are, everything else is rebuilt from the entries, and all of it is
proven ('pawl check') before it counts.

Without --to the new directory takes the old one's place, and the old one is kept
beside it as DIR.format1, unchanged: remove it once you need no way back. It takes as
much room again. Broken off at any moment, call it again.

Exit codes: 0 done, or nothing to do; 1 the old store is not in order; 2 the
directory cannot be migrated.`,
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
				return output.Usage(err)
			}
			if err != nil {
				return err
			}
			return printMigration(p, done)
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "directory or database of the store that is copied")
	cmd.Flags().StringVar(&to, "to", "", "new directory, empty or absent, instead of the old one's place; with --from: directory or database that gets the store")
	cmd.Flags().Int32Var(&part, "partition", 0, "with --from URL: the partition that is copied, of a store that has several")
	completeDir(cmd, "from")
	completeDir(cmd, "to")
	dataKeyFlag(cmd, &data)
	databaseFlags(cmd, &data)
	return cmd
}

var errNoParts = errors.New("--partition is of the database that --from names")

// runMove makes a store in another place.
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
		return printReport(p, done.Report, err)
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
