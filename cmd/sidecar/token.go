package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/grpcapi/auth"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

func newToken(p *output.Printer) *cobra.Command {
	return group("token", "Make bearer tokens, of which a file keeps digests alone", newTokenNew(p), newTokenHash(p))
}

func newTokenNew(p *output.Printer) *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use:   "new PRINCIPAL SCOPE[,SCOPE...][@NAMESPACE[,NAMESPACE...]]",
		Short: "Create a token and print it once",
		Long: `Creates a token of 256 random bits and prints it. It is stored nowhere. The line for the tokens file has
only its digest. The command appends that line to --file, or prints it on standard error. A running
sidecar reads the file again on SIGHUP.`,
		Example: "  TOKEN=$(pawl token new approvals runs:read,events:external@red --file tokens)",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			secret := auth.NewSecret()
			line, err := auth.TokenLine(args[0], args[1], secret)
			if err != nil {
				return output.Usage(err)
			}
			if file != "" {
				if err := appendLine(file, line); err != nil {
					return output.Usage(err)
				}
			}
			return printToken(p, secret, line, file == "")
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "tokens file to append the line to; a new file gets mode 0600")
	return cmd
}

func printToken(p *output.Printer, secret, line string, show bool) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{{Key: "token", Value: secret}, {Key: "line", Value: line}})
	}
	if show {
		p.Warnf("line for the tokens file: %s", line)
	}
	p.Printf("%s\n", secret)
	return nil
}

// appendLine adds a line to a file that only its owner can read and write.
func appendLine(path, line string) (err error) {
	old, err := secretfile.Read(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		line = "\n" + line
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = io.WriteString(file, line+"\n")
	return err
}

func newTokenHash(p *output.Printer) *cobra.Command {
	return &cobra.Command{
		Use:   "hash FILE",
		Short: "Replace the tokens of a file by their digests",
		Long: `Rewrites a tokens file with lines of PRINCIPAL SCOPES TOKEN: it replaces each token by sha256: and its
digest and changes nothing else. Callers continue to send the same tokens. The file is replaced in
one step. Other copies of the file still have the tokens.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			n, err := hashFile(args[0])
			if err != nil {
				return output.Usage(fmt.Errorf("%s: %w", args[0], err))
			}
			p.Printf("%s: %d tokens became digests\n", args[0], n)
			return nil
		},
	}
}

// hashFile replaces the tokens in a tokens file by their digests. It keeps the permissions of the file and returns the number of replaced
// tokens.
func hashFile(path string) (n int, err error) {
	text, err := secretfile.Read(path)
	if err != nil {
		return 0, err
	}
	hashed, n, err := auth.HashLines(text)
	if err != nil || n == 0 {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	next, err := os.CreateTemp(filepath.Dir(path), ".tokens-")
	if err != nil {
		return 0, err
	}
	defer os.Remove(next.Name())
	_, err = next.Write(hashed)
	if err = errors.Join(err, next.Chmod(info.Mode().Perm()), next.Sync(), next.Close()); err != nil {
		return 0, err
	}
	return n, os.Rename(next.Name(), path)
}
