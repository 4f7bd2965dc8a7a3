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
		Short: "Rewrite a data directory without what was superseded and removed",
		Long: `Rewrites the rows of a data directory that no sidecar has open, as they are now:
what was superseded or removed is in no file afterwards. An encrypted directory stays
encrypted, under new data keys. It is the same store: cursors stay valid, and the next
backup may follow on the last.

The new directory is made beside the old one, as DIR.compact, proven ('pawl check')
and then takes its place in one step; the old one is removed. It takes as much room again.
Broken off at any moment, DIR is what it was: call it again. Where DIR cannot be renamed
(it is a mount point) give --to. Run it as the user that serves: the files are its owner's.

Exit codes: 0 done; 1 the store is not in order, or there is no room; 2 the directory
cannot be opened, or not be renamed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data.Dir = args[0]
			done, err := server.Compact(cmd.Context(), data, to)
			if errors.Is(err, server.ErrUnusable) {
				return output.Usage(err)
			}
			if err != nil {
				return err
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
	cmd.Flags().StringVar(&to, "to", "", "new directory, empty or absent, instead of the old one's place")
	completeDir(cmd, "to")
	dataKeyFlag(cmd, &data)
	return cmd
}
