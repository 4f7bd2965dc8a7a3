package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack/format"
)

// newPacksFmt returns the command that writes packs in the standard form, or checks that they have it.
func newPacksFmt(p *output.Printer) *cobra.Command {
	check, write := false, false
	cmd := &cobra.Command{
		Use:   "fmt [--check | --write] FILE...",
		Short: "Write packs in one form: order of keys, indentation",
		Long: `Writes packs in one form (JSON or YAML; - is standard input) and prints the result. Keys of the format
are in the order of the format. Names that authors choose, lists, and keys of other programs stay in
the order of the file, and so do all keys of a YAML file with anchors. Comments of YAML are kept, empty
lines are not. The values stay the same, so the digest stays the same and a registered id@version is
still the same pack.

Exit codes: 0 done; 1 with --check, a file is not in this form; 2 a file could not be read or written.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if check && write {
				return errors.New("--check and --write exclude each other: one reports, the other changes files")
			}
			if write && slices.Contains(args, "-") {
				return errors.New("--write needs files: standard input cannot be replaced")
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(_ *cobra.Command, paths []string) error {
			differ := false
			for _, path := range paths {
				src, err := readPack(path)
				if err != nil {
					return output.Usage(err)
				}
				out, err := format.Source(src)
				if err != nil {
					return output.Usage(fmt.Errorf("%s: %w", path, err))
				}
				switch same := bytes.Equal(src, out); {
				case same && (check || write): // there is nothing to report or to write
				case check:
					differ = true
					p.Printf("%s: not in the form of pawl packs fmt; mend it with --write\n", path)
				case write:
					if err := replaceFile(path, out); err != nil {
						return output.Usage(err)
					}
					p.Printf("%s: written\n", path)
				default:
					// The output is the pack itself, so control characters stay as they are.
					if _, err := p.Out.Write(out); err != nil {
						return output.Usage(err)
					}
				}
			}
			if differ {
				return output.Fault()
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "print the names of files that are not in this form, and exit with 1 if there are any")
	cmd.Flags().BoolVar(&write, "write", false, "replace files that are not in this form")
	return cmd
}
