package server

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/secretfile"
)

// openAudit opens the configured audit log and writes the line about the start of the process. It
// returns nil if no audit log is configured.
func openAudit(c config.Config) (*audit.Log, error) {
	if c.Audit == "" {
		return nil, nil
	}
	opts := audit.Options{Dir: c.Audit, MaxBytes: int64(c.AuditBytes)}
	if c.AuditKey != "" {
		var err error
		if opts.Key, err = secretfile.Read(c.AuditKey); err != nil {
			return nil, fmt.Errorf("audit_key: %w", err)
		}
	}
	log, err := audit.Open(opts)
	if errors.Is(err, audit.ErrNeedsKey) {
		return nil, &config.Error{Faults: []config.Fault{{Field: "audit_key", Message: "is required: " + err.Error()}}}
	}
	if err != nil {
		return nil, err
	}
	return log, log.Add(audit.Entry{Method: "serve", Outcome: "OK", Note: "the sidecar starts"})
}

func closeAudit(log *audit.Log) error {
	if log == nil {
		return nil
	}
	return log.Close()
}

// audited writes a line about an action of the operator to the audit log. If there is no audit log, it
// does nothing.
func (a *app) audited(method string, err error) {
	if a.opts.audit == nil {
		return
	}
	e := audit.Entry{Method: method, Outcome: "OK"}
	if err != nil {
		e.Outcome = "FAILED"
	}
	if err := a.opts.audit.Add(e); err != nil {
		a.opts.log.Error("audit write failed, changes are refused until it succeeds", "error", err)
	}
}
