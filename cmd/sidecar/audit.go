package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

func newAudit(p *output.Printer) *cobra.Command {
	return group("audit", "Prove and read what `serve --audit` writes", newAuditVerify(p), newAuditExport(p))
}

func newAuditVerify(p *output.Printer) *cobra.Command {
	key, head := "", ""
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Prove that no line of an audit was changed, added or taken out",
		Long: `Proves the chain of an audit, also of one that is being written, from its first file
to its last, and prints where it ends: NUMBER:HASH. Keep that elsewhere: with --head an earlier
end is looked for, so that lines which were cut off at the end since are found as well.

Exit codes: 0 it is whole; 1 it is not; 2 it cannot be read.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			secret, err := auditKey(key)
			if err != nil {
				return output.Usage(err)
			}
			end, err := verifyAudit(args[0], secret, head)
			if err != nil {
				return err
			}
			return printEnd(p, end)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "file of the key that it was written with")
	cmd.Flags().StringVar(&head, "head", "", "NUMBER:HASH of an earlier end, which must still be there")
	return cmd
}

// auditKey reads the key of an audit; "" = it has none.
func auditKey(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	return secretfile.Read(path)
}

func verifyAudit(dir string, key []byte, head string) (audit.End, error) {
	if head == "" {
		return audit.Verify(dir, key, nil)
	}
	number, hash, _ := strings.Cut(head, ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return audit.End{}, output.Usage(fmt.Errorf("--head %q: want NUMBER:HASH", head))
	}
	found := false
	end, err := audit.Verify(dir, key, func(e *audit.Entry, sum string, _ []byte) error {
		if e.Seq == seq && sum != hash {
			return fmt.Errorf("line %d has another hash than --head says: the audit was written anew", seq)
		}
		found = found || e.Seq == seq
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("line %d of --head is not there: the audit has %d to %d", seq, end.First, end.Seq)
	}
	return end, err
}

func printEnd(p *output.Printer, end audit.End) error {
	if p.JSON {
		return output.WriteJSON(p.Out, output.Object{
			{Key: "lines", Value: end.Lines}, {Key: "first", Value: end.First}, {Key: "last", Value: end.Seq}, {Key: "hash", Value: end.Hash},
		})
	}
	p.Printf("%d lines, %d to %d, are whole\n%d:%s\n", end.Lines, end.First, end.Seq, end.Seq, end.Hash)
	return nil
}

func newAuditExport(p *output.Printer) *cobra.Command {
	key, principal, method, after := "", "", "", uint64(0)
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Print the lines of an audit, each proven",
		Long: `Prints lines as they stand in the files, one JSON object each, and ends with an error at the
first that is not whole.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			secret, err := auditKey(key)
			if err != nil {
				return output.Usage(err)
			}
			_, err = audit.Verify(args[0], secret, func(e *audit.Entry, _ string, line []byte) error {
				if e.Seq <= after || principal != "" && e.Principal != principal || method != "" && !strings.HasSuffix(e.Method, method) {
					return nil
				}
				_, err := fmt.Fprintf(p.Out, "%s\n", line)
				return err
			})
			return errors.Join(err)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "file of the key that it was written with")
	cmd.Flags().Uint64Var(&after, "after", 0, "only lines behind this number")
	cmd.Flags().StringVar(&principal, "principal", "", "only those of this principal")
	cmd.Flags().StringVar(&method, "method", "", "only those of methods that end so: StartRun")
	return cmd
}
