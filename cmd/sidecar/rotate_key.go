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
		Short: "Put an encrypted data directory under another key",
		Long: `Changes the key of an encrypted data directory that no sidecar has open. The key
encrypts the data keys, and only these are rewritten, in one rename: it takes no
time, and at every moment the directory opens with the old key or with the new one.
Data keys change by themselves (serve --data-key-age).

A database has no such key: --store is refused.

Who had the old key and a copy of the directory can still read that copy, and with
the data keys in it the files that were written under them.

Exit codes: 0 done; 1 the directory has this key already, or holds less than was
acknowledged; 2 the directory cannot be opened.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if !data.Database.URL.IsZero() {
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
	cmd.Flags().StringVar(&to, "new-key-file", "", "file of the new key: 16, 24 or 32 bytes, hex or base64 (required)")
	return cmd
}
