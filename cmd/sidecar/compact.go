package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newCompact(p *output.Printer) *cobra.Command {
	var data server.Data
	to := ""
	cmd := &cobra.Command{
		Use:   "compact DIR",
		Short: "Rewrite a data directory without superseded and removed data",
		Long: `Rewrites a data directory that no sidecar has open. The new files contain only the current rows, no
superseded or removed data. An encrypted directory is encrypted again, with new data keys. The content
does not change: cursors remain valid, and the next backup can be incremental.

The command writes the new directory beside the old one, as DIR.compact, checks it ('pawl check') and
then replaces the old one in one step. That needs as much free space as the store has. You can repeat an
interrupted command: DIR is unchanged until the last step. Use --to if DIR cannot be renamed, for example
a mount point. The new files belong to the owner of DIR, also if root runs the command.

Exit codes: 0 done; 1 the store has a fault; 2 a directory cannot be opened, created or renamed, or the
disk is full.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data.Dir = args[0]
			done, err := server.Compact(cmd.Context(), data, to)
			if errors.Is(err, server.ErrUnusable) {
				return output.Usage(explainReplace(err, data.Dir))
			}
			if err != nil {
				return explainReplace(err, data.Dir)
			}
			if p.JSON {
				return output.WriteJSON(p.Out, output.Object{
					{Key: "dir", Value: done.Dir}, {Key: "rows", Value: done.Rows}, {Key: "bytes_before", Value: done.Before}, {Key: "bytes_after", Value: done.After},
				})
			}
			p.Printf("%s: %d rows, %d bytes before, %d after\n", done.Dir, done.Rows, done.Before, done.After)
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "new directory, empty or absent; default: replace DIR")
	completeDir(cmd, "to")
	dataKeyFlag(cmd, &data)
	return cmd
}
