package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newBackupVerify(p *output.Printer) *cobra.Command {
	var v server.BackupVerification
	var data server.Data
	cmd := &cobra.Command{
		Use:   "verify FROM",
		Short: "Prove that backups can be restored",
		Long: `Reads the backups that a restore would use and verifies the digest of each and their order. FROM is a
directory that backup wrote, or the file of a backup: then up to this one.

With --restore it also restores them into a new directory under --scratch, runs the checks of pawl check
there, prints the counts and removes the directory, also after a failure or Ctrl+C. It needs the space
of the store. Backups of several partitions are restored one after another into the same place. The
restored values are encrypted only with --encryption-key-file. A killed process leaves the directory
pawl-verify-*, which you can remove.

It changes neither the backups nor a store, and needs no running sidecar.

Exit codes: 0 proven; 1 a backup is cut, changed, missing or out of order, or the restored store has a
fault; 2 FROM, the identity, a key or --scratch cannot be used, or --scratch is full.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v.From.Dir, v.KeyFile = args[0], data.KeyFile
			begun := time.Now()
			done, err := server.VerifyBackups(cmd.Context(), v)
			if err != nil {
				return printReport(p, done.Report, err)
			}
			return printVerification(p, v, done, time.Since(begun))
		},
	}
	dataKeyFlag(cmd, &data)
	cmd.Flags().BoolVar(&v.Restore, "restore", false, "restore the backups for the time of the command and check the result")
	cmd.Flags().StringVar(&v.Scratch, "scratch", "", "directory for the restored store (default: TMPDIR)")
	restoreFlags(cmd, &v.From)
	return cmd
}

func printVerification(p *output.Printer, v server.BackupVerification, done server.VerifiedBackups, took time.Duration) error {
	at := done.At.UTC().Format(time.RFC3339)
	if p.JSON {
		object := output.Object{
			{Key: "ok", Value: true}, {Key: "backups", Value: done.Files}, {Key: "bytes", Value: done.Bytes}, {Key: "taken_at", Value: at},
			{Key: "seconds", Value: took.Seconds()}, {Key: "restored", Value: v.Restore},
		}
		if v.Restore {
			object = append(object, output.Object{{Key: "report", Value: reportObject(done.Report)}}...)
		}
		return output.WriteJSON(p.Out, object)
	}
	what := "readable: --restore also proves the contents"
	if v.Restore {
		what = "restored and checked"
	}
	p.Printf("%s: %d backups, %d bytes, taken %s; %s in %.1f s\n", v.From.Dir, len(done.Files), done.Bytes, at, what, took.Seconds())
	if !v.Restore {
		return nil
	}
	return printReport(p, done.Report, nil)
}
