package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newBackupPrune(p *output.Printer) *cobra.Command {
	var prune server.Prune
	cmd := &cobra.Command{
		Use:   "prune DIR --keep N",
		Short: "Remove old backups that no kept backup needs",
		Long: `Removes backups from a directory that backup wrote, and prints the name of each. These stay: the newest N,
the backups that are younger than --keep-for, and all that one of these continues, back to its full
backup. So old backups go only after a later full backup (backup --full). Of a store with
several partitions, the newest N of each partition stay. RUNKEYS and all other files stay.

The command first reads the newest backup of each partition and those that it continues. If one is
damaged or missing, it removes nothing and says why. It also removes nothing if a file has the name of a
backup and is no backup.
Encrypted backups need --identity. An interrupted command leaves only backups that can be restored.
Call it again.

Exit codes: 0 done, also if there was nothing to remove; 1 a backup is damaged; 2 DIR, the identity or a
number cannot be used, or a backup is being written into DIR.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			prune.Dir = args[0]
			removed := []string{}
			err := server.PruneBackups(cmd.Context(), prune, func(file string) {
				removed = append(removed, file)
				switch {
				case p.JSON: // one object lists all files at the end
				case prune.DryRun:
					p.Printf("%s may go\n", file)
				default:
					p.Printf("%s is removed\n", file)
				}
			})
			if errors.Is(err, server.ErrUnusable) {
				err = output.Usage(err)
			}
			if p.JSON && (err == nil || len(removed) > 0) {
				return errors.Join(err, output.WriteJSON(p.Out, output.Object{{Key: "removed", Value: removed}, {Key: "dry_run", Value: prune.DryRun}}))
			}
			if err == nil && len(removed) == 0 {
				p.Printf("nothing to remove\n")
			}
			return err
		},
	}
	cmd.Flags().IntVar(&prune.Keep, "keep", 0, "number of newest backups that stay, at least 1 (required)")
	cmd.Flags().DurationVar(&prune.KeepFor, "keep-for", 0, "age up to which backups stay as well, for example 720h; 0 = only by number")
	cmd.Flags().StringVar(&prune.Identity, "identity", "", "file with the age identity that decrypts the backups")
	cmd.Flags().BoolVar(&prune.DryRun, "dry-run", false, "only print what may go")
	return cmd
}
