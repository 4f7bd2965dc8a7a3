package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/app"
	"github.com/pawl-dev/pawl/internal/cli"
)

func newBackup(p *cli.Printer) *cobra.Command {
	var data app.Data
	full := false
	cmd := &cobra.Command{
		Use:   "backup TO --data DIR",
		Short: "Write a backup of a data directory, or what is new since the last",
		Long: `Writes what a data directory that no sidecar has open holds into a file in the
directory TO: everything the first time, then what is new since the last file there
(--full: everything again). A file has a digest of all its bytes and names the one that it
follows on; one that is cut, changed or missing is refused. It is not encrypted, whatever
the data directory is, and has everything: keep it as safe as that.

sidecar restore TO --data NEW makes a data directory of it.

Exit codes: 0 done; 1 the directory or a backup is damaged; 2 it cannot be opened.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if data.Dir == "" {
				return cli.Usage(errors.New("--data is required: the directory of a store"))
			}
			done, err := app.Backup(cmd.Context(), data, args[0], full)
			if errors.Is(err, app.ErrUnusable) {
				return cli.Usage(err)
			}
			if err != nil {
				return err
			}
			return printBackup(p, done)
		},
	}
	dataFlag(cmd, &data, "directory of the store (required)")
	cmd.Flags().BoolVar(&full, "full", false, "everything, though there are backups to follow on")
	return cmd
}

func printBackup(p *cli.Printer, done app.BackupDone) error {
	if p.JSON {
		return cli.WriteJSON(p.Out, cli.Object{{Key: "file", Value: done.File}, {Key: "follows", Value: done.Follows}, {Key: "bytes", Value: done.Bytes}})
	}
	what := "everything"
	if done.Follows != "" {
		what = "what is new since " + done.Follows
	}
	p.Printf("%s: %s, %d bytes\n", done.File, what, done.Bytes)
	return nil
}

func newRestore(p *cli.Printer) *cobra.Command {
	var data app.Data
	upTo := ""
	cmd := &cobra.Command{
		Use:   "restore FROM --data NEW",
		Short: "Make a data directory of backups",
		Long: `Makes a data directory of the backups in the directory FROM: of the last that has
everything and all that follow on it, or up to --to FILE. NEW must be empty or absent; it
has its name only when everything in it was proven ('sidecar check').

It is another store than the one that was backed up: what callers hold of that one's
cursors is refused (CURSOR_FOREIGN) instead of passing over records. Named consumers and
webhooks go on where they were when the backup was made. Never serve both.

Exit codes: 0 done; 1 a backup is cut, changed, missing or in the wrong order; 2 NEW is
not empty.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if data.Dir == "" {
				return cli.Usage(errors.New("--data is required: the directory to make"))
			}
			report, used, err := app.Restore(cmd.Context(), args[0], upTo, data)
			if errors.Is(err, app.ErrUnusable) {
				return cli.Usage(err)
			}
			if err != nil {
				return err
			}
			if p.JSON {
				return cli.WriteJSON(p.Out, cli.Object{{Key: "dir", Value: data.Dir}, {Key: "backups", Value: used}, {Key: "report", Value: reportObject(report)}})
			}
			p.Printf("%s: restored from %d backups\n", data.Dir, len(used))
			return printReport(p, report, nil)
		},
	}
	dataFlag(cmd, &data, "directory to make, empty or absent (required)")
	cmd.Flags().StringVar(&upTo, "to", "", "file of the last backup to take; default the newest")
	return cmd
}
