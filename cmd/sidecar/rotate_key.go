package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/server"
)

func newRotateKey(p *output.Printer) *cobra.Command {
	var data server.Data
	to := ""
	cmd := &cobra.Command{
		Use:   "rotate-key --data DIR --encryption-key-file OLD --new-key-file NEW",
		Short: "Change the key of an encrypted data directory",
		Long: `Changes the key of an encrypted data directory that no sidecar has open. The key encrypts the data
keys. The command rewrites only the data keys, in one rename. So it is fast, and at every moment either
the old key or the new one is valid. Data keys rotate without a command (serve --data-key-age).

A database has no encryption key, and the command refuses --store.

The old key can still decrypt old copies of the directory, and with the data keys of such a copy also all
files that were written with them.

Exit codes: 0 done; 1 the directory already has this key, or lacks acknowledged data; 2 the directory
cannot be opened.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !data.Database.URL.IsZero() {
				data.Dir = "" // RotateKey refuses a store without a directory
				return output.Usage(server.RotateKey(data, to))
			}
			if data.Dir == "" || data.KeyFile == "" || to == "" {
				return output.Usage(errors.New("--data, --encryption-key-file and --new-key-file are required"))
			}
			err := server.RotateKey(data, to)
			if errors.Is(err, server.ErrUnusable) {
				return output.Usage(err)
			}
			if err != nil {
				return err
			}
			if p.JSON {
				return output.WriteJSON(p.Out, output.Object{{Key: "ok", Value: true}, {Key: "dir", Value: data.Dir}})
			}
			p.Printf("%s opens with the key in %s from now on\n", data.Dir, to)
			return nil
		},
	}
	dataFlag(cmd, &data, "directory of the store (required)")
	storeFlag(cmd, &data)
	cmd.Flags().StringVar(&to, "new-key-file", "", "file with the new key: 16, 24 or 32 bytes, hex or base64 (required)")
	return cmd
}
