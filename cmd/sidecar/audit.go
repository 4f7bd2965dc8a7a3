package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

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
		Short: "Check that no line of an audit log was changed, added or removed",
		Long: `Checks the hash chain of an audit log from its first file to its last, also while a sidecar writes
it, and prints its end as NUMBER:HASH. Keep that value outside of the machine: a later check with
--head finds lines that were cut off at the end.

A log that "serve --audit-key" wrote is verified only with the same key (--key).

Exit codes: 0 the log is intact; 1 it is not; 2 it cannot be read, or its key was not given.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			secret, err := auditKey(key)
			if err != nil {
				return output.Usage(err)
			}
			end, err := verifyAudit(args[0], secret, head)
			if err != nil {
				return explainKey(err)
			}
			return printEnd(p, end)
		},
	}
	cmd.Flags().StringVar(&key, "key", "", auditKeyUsage)
	cmd.Flags().StringVar(&head, "head", "", "NUMBER:HASH of an earlier end of the log, which it must still contain")
	return cmd
}

const auditKeyUsage = "file with the HMAC key of the log, the one of serve --audit-key (default: the log has none)"

// explainKey adds to the error about a missing key how to give it.
func explainKey(err error) error {
	if errors.Is(err, audit.ErrNeedsKey) {
		return output.Usage(fmt.Errorf("%w: give the file of the sidecar's --audit-key with --key", err))
	}
	return err
}

// auditKey reads the key of an audit log from a file. If path is "", the log has no key and auditKey returns nil.
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
	number, hash, hasHash := strings.Cut(head, ":")
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || !hasHash || hash == "" {
		return audit.End{}, output.Usage(fmt.Errorf("--head %q: want NUMBER:HASH", head))
	}
	found := false
	end, err := audit.Verify(dir, key, func(e *audit.Entry, sum string, _ []byte) error {
		if e.Seq == seq && sum != hash {
			return fmt.Errorf("line %d has another hash than --head says: the audit log was rewritten", seq)
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
	key, f := "", auditFilter{}
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Verify an audit log and print its lines",
		Long: `Prints the lines of an audit log as they are stored, one JSON object each. It checks the hash chain
and fails at the first line that does not match. The filters choose the lines that are printed; the
chain is checked over all lines.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			secret, err := auditKey(key)
			if err == nil {
				err = f.parse(time.Now())
			}
			if err != nil {
				return output.Usage(err)
			}
			_, err = audit.Verify(args[0], secret, func(e *audit.Entry, _ string, line []byte) error {
				if !f.selects(e) {
					return nil
				}
				_, err := fmt.Fprintf(p.Out, "%s\n", line)
				return err
			})
			return explainKey(err)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&key, "key", "", auditKeyUsage)
	fs.Uint64Var(&f.after, "after", 0, "only lines after this number; 0 = all")
	fs.StringVar(&f.principal, "principal", "", "only lines of this principal")
	fs.StringVar(&f.method, "method", "", "only lines of methods with this ending, for example StartRun")
	fs.BoolVar(&f.decisions, "decisions", false, "only lines with a decision about a held call, by the API, a link or a message of A2A; outcome says if it was taken")
	fs.StringVar(&f.run, "run", "", "only lines about this run (or pack, webhook, consumer)")
	fs.StringVar(&f.fromText, "from", "", "only lines of this time or later: RFC 3339, or a duration back from now, for example 24h")
	fs.StringVar(&f.toText, "to", "", "only lines before this time: RFC 3339, or a duration back from now")
	return cmd
}

// auditFilter selects lines of an audit log. An empty field selects all lines.
type auditFilter struct {
	after                  uint64
	principal, method, run string
	decisions              bool
	fromText, toText       string
	from, to               time.Time
}

// parse reads the times. A duration is subtracted from now.
func (f *auditFilter) parse(now time.Time) error {
	from, to, err := span(f.fromText, f.toText, now)
	if err != nil {
		return err
	}
	if from != nil {
		f.from = from.AsTime()
	}
	if to != nil {
		f.to = to.AsTime()
	}
	return nil
}

func (f *auditFilter) selects(e *audit.Entry) bool {
	return e.Seq > f.after &&
		(f.principal == "" || e.Principal == f.principal) &&
		(f.method == "" || strings.HasSuffix(e.Method, f.method)) &&
		(!f.decisions || e.Decision != "") &&
		(f.run == "" || e.Resource == f.run) &&
		(f.from.IsZero() || !e.At.Before(f.from)) &&
		(f.to.IsZero() || e.At.Before(f.to))
}
