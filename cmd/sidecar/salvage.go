package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newSalvage(p *output.Printer) *cobra.Command {
	var data server.Data
	to := ""
	cmd := &cobra.Command{
		Use:   "salvage DIR --data NEW",
		Short: "Make a store from what can be read of a damaged directory",
		Long: `Reads a damaged data directory that no sidecar has open, and creates a new store in the directory NEW, which
must be empty or absent. The command never writes into DIR. Restore a backup if you have one: it has everything that
was acknowledged before it. Use this command for what is newer than the backup, or if there is none.

A run comes out if all of its records and its pack can be read: their hash chain is proven and they are replayed, and
the command rebuilds accounts, queues and indexes from the runs that came out. Any other run is left out whole and
named, because a part of it would repeat effects that already happened. Its business keys stay taken. Blobs,
subscriptions and other data come out if they are whole. The command prints each file with the place that cannot be
read. It ends with all checks of 'pawl check'.

If commits are lost whose runs nothing names any more, a run that was at work then can come out as it was shortly
before. The command prints each run that has not ended and may be one of these as doubtful: look at them before
workers connect.

The new store is a different store: it refuses cursors of the old one (CURSOR_FOREIGN). Never serve both. An encrypted
directory needs --encryption-key-file, which also encrypts NEW. You can repeat an interrupted command.

Exit codes: 0 everything came out; 1 the new store is in order, but parts of the old one are lost and named, or
nothing could be read; 2 a directory or the key cannot be used, or the disk is full.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data.Dir = args[0]
			if to == "" {
				return output.Usage(errors.New("--data is required: the new directory"))
			}
			done, err := server.Salvage(cmd.Context(), data, to)
			if errors.Is(err, server.ErrUnusable) {
				return output.Usage(err)
			}
			if err != nil {
				return err
			}
			return printSalvage(p, to, &done)
		},
	}
	cmd.Flags().StringVar(&to, "data", "", "directory to create, empty or absent")
	completeDir(cmd, "data")
	dataKeyFlag(cmd, &data)
	return cmd
}

// printSalvage prints what was lost and what the new store has.
func printSalvage(p *output.Printer, to string, s *server.Salvaged) error {
	whole := len(s.Damage)+len(s.LeftOut)+len(s.Doubtful)+len(s.Removed)+len(s.Named) == 0
	if p.JSON {
		files, rows := []any{}, []any{}
		for _, d := range s.Damage {
			files = append(files, output.Object{{Key: "file", Value: d.File}, {Key: "detail", Value: d.Detail}})
		}
		for _, f := range s.Removed {
			rows = append(rows, output.Object{{Key: "namespace", Value: f.Namespace}, {Key: "row", Value: f.Row}, {Key: "detail", Value: f.Detail}})
		}
		err := output.WriteJSON(p.Out, output.Object{
			{Key: "dir", Value: to}, {Key: "whole", Value: whole}, {Key: "damage", Value: files}, {Key: "runs_left_out", Value: runFaults(s.LeftOut)},
			{Key: "runs_doubtful", Value: runFaults(s.Doubtful)}, {Key: "rows_left_out", Value: rows}, {Key: "namespaces_named", Value: append([]string{}, s.Named...)}, {Key: "report", Value: reportObject(s.Report)},
		})
		if err == nil && !whole {
			err = output.Fault()
		}
		return err
	}
	for _, d := range s.Damage {
		p.Printf("%s: %s: %s\n", p.Bad("not readable"), d.File, d.Detail)
	}
	for _, f := range s.LeftOut {
		p.Printf("%s: %s\n", p.Bad("left out"), f)
	}
	for _, f := range s.Removed {
		p.Printf("%s: %s\n", p.Bad("left out"), f)
	}
	for _, f := range s.Doubtful {
		p.Printf("%s: %s\n", p.Bad("doubtful"), f)
	}
	for _, name := range s.Named {
		p.Printf("%s: the name of a namespace is lost, it is now %s\n", p.Bad("renamed"), name)
	}
	p.Printf("%s: a new store, and a different one from the old: never serve both\n", to)
	err := printReport(p, s.Report, nil)
	if err == nil && !whole {
		err = output.Fault()
	}
	return err
}

// runFaults returns the JSON values of faults of runs.
func runFaults(faults []*server.CheckFault) []any {
	runs := []any{}
	for _, f := range faults {
		runs = append(runs, output.Object{{Key: "namespace", Value: f.Namespace}, {Key: "run", Value: f.Run}, {Key: "seq", Value: f.Seq}, {Key: "detail", Value: f.Row + ": " + f.Detail}})
	}
	return runs
}
