package server

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"

	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/retention"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/datadir"
	"github.com/pawl-dev/pawl/internal/store/diskspace"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// retentionPolicy returns the retention policy of the configuration. It creates the directories of the
// archives and checks that they can be written. counts is nil if metrics are off.
func retentionPolicy(opts options, counts *telemetry.Metrics) (retention.Policy, error) {
	c := opts.config
	teller := &retentionReporter{log: opts.log, audit: opts.audit, counts: counts}
	p := retention.Policy{
		Every: c.RetentionEvery, Grace: c.RetentionGrace, Preview: c.RetentionPreview, ForgetAfter: c.DeletedRunRetention,
		Before: teller.line, OnResult: teller.taken, OnForgotten: teller.forgot, OnError: teller.fault, CheckSpace: checkArchiveSpace,
	}
	if opts.audit != nil {
		p.Ready = opts.audit.Ready
	}
	for i, r := range c.Rules() {
		if r.Keep {
			p.Rules = append(p.Rules, retention.Rule{Name: r.Name, Namespace: r.Namespace, Statuses: statusesOf(r.Status), Labels: labelsOf(r.Label)})
			continue
		}
		if err := writable(r.Archive, opts.serves); err != nil {
			return p, &config.Error{Faults: []config.Fault{{Field: fmt.Sprintf("retention[%d].archive", i), Message: err.Error()}}}
		}
		p.Rules = append(p.Rules, retention.Rule{
			Name: r.Name, Namespace: r.Namespace, Statuses: statusesOf(r.Status), Labels: labelsOf(r.Label),
			OlderThan: r.OlderThan, KeepNewest: r.KeepNewest, MaxBytes: int64(r.MaxBytes), Archive: r.Archive,
		})
	}
	return p, nil
}

// leftFree is the space that an archive leaves free on its disk, in bytes. The store may be on the same
// disk, and it needs less than this for new work.
const leftFree = 320 << 20

// checkArchiveSpace returns an error if the disk of an archive is almost full.
func checkArchiveSpace(dir string) error {
	return (&diskspace.Disk{Dir: dir, Free: diskspace.FreeSpace}).CheckNow(leftFree)
}

// endsOf returns the configured retention of consumers and of dead letters.
func endsOf(opts options, names func(ns uint32) string, s *store.Store, counts *telemetry.Metrics) services.Ends {
	c := opts.config
	return services.Ends{
		ConsumerRetention: c.ConsumerRetention, DeadLetterRetention: c.DeadLetterRetention, MaxDeadLetters: c.Limits.DeadLetters, DeadLetters: s,
		OnExpired: func(ns uint32, what string, n int) {
			counts.Forgotten(what, n)
			opts.log.Warn("retention expired records", "kind", what, "namespace", names(ns), "count", n)
		},
	}
}

// statusesOf returns the statuses with these names. The names were already checked.
func statusesOf(names []string) (out []machine.Status) {
	for _, name := range names {
		for s := machine.Completed; s <= machine.Cancelled; s++ {
			if s.String() == name {
				out = append(out, s)
			}
		}
	}
	return out
}

func labelsOf(labels map[string]string) (out []machine.Label) {
	for key, value := range labels {
		out = append(out, machine.Label{Key: key, Value: value})
	}
	return out
}

// writable creates a directory and tests that files can be written in it. For "" it does nothing. It
// removes the incomplete files that a crash has left, for the namespaces for which serves is true. If
// serves is nil, it does this for all namespaces.
func writable(dir string, serves func(namespace string) bool) error {
	if dir == "" {
		return nil
	}
	if err := datadir.MakeDir(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Clean(dir), ".writable-*")
	if err != nil {
		return fmt.Errorf("cannot be written: %w", err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	return errors.Join(os.Remove(f.Name()), retention.Clear(filepath.Clean(dir), serves))
}

// retentionReporter reports deletions and archives to the log, the metrics and the audit log.
type retentionReporter struct {
	log    *slog.Logger
	audit  *audit.Log
	counts *telemetry.Metrics
}

func (t *retentionReporter) taken(r retention.Taken) {
	what := []any{"rule", r.Rule, "namespace", r.Namespace, "run_id", r.RunID, "bytes", r.Bytes}
	switch r.Outcome {
	case retention.Deleted:
		t.counts.Retained(string(r.Outcome), r.Bytes, r.ArchivedBytes)
		t.log.Debug("run deleted by retention", append(what, "archive", r.Archive)...)
		return
	case retention.WouldDelete:
		t.log.Info("run selected by retention preview", what...)
	case retention.Needed:
		t.log.Debug("run kept by retention, still needed", what...)
	case retention.Gone:
		t.log.Debug("run already deleted by a caller", what...)
	case retention.Unarchived:
		t.log.Error("run not deleted, writing its archive failed", append(what, "error", r.Err)...)
	case retention.Failed:
		t.log.Error("deleting run failed", append(what, "error", r.Err)...)
	}
	if r.Outcome != retention.Gone {
		t.counts.Retained(string(r.Outcome), 0, r.ArchivedBytes)
	}
	if r.Announced && t.audit != nil {
		t.undone(r)
	}
}

// undone writes an audit line which says that a deletion was not done. An earlier line announced this
// deletion.
func (t *retentionReporter) undone(r retention.Taken) {
	e := lineOf(r)
	e.Outcome, e.Note = rpccode.Code_FAILED_PRECONDITION.String(), e.Note+", not deleted"
	if r.Err != nil {
		st, _ := apierror.Status(r.Err)
		e.Outcome = rpccode.Code(st.Code()).String()
	}
	if refusal, ok := errors.AsType[*machine.Error](r.Err); ok {
		e.Reason = refusal.Reason
	}
	if err := t.audit.Add(e); err != nil {
		t.log.Error("run logged in audit as deleted, but deletion failed", "run_id", r.RunID, "error", err)
	}
}

// line writes the audit line about a deletion before the deletion. So a crash can cause the line and
// the deletion to be repeated, but nothing is deleted without a line. If the line cannot be written,
// the run is not deleted.
func (t *retentionReporter) line(r retention.Taken) error {
	if t.audit == nil {
		return nil
	}
	return t.audit.Add(lineOf(r))
}

func lineOf(r retention.Taken) audit.Entry {
	e := audit.Entry{
		Principal: retention.Principal, Namespace: r.Namespace, Resource: r.RunID, Method: "retention", Outcome: "OK", Note: "rule " + r.Rule,
	}
	if r.Archive != "" {
		e.Note += ", archived as " + r.Archive
	}
	return e
}

// fault logs an error that ends a whole round of deletions. The next round starts from the beginning.
func (t *retentionReporter) fault(err error) {
	t.log.Error("retention incomplete, retrying", "error", err)
}

func (t *retentionReporter) forgot(namespace string, runs int) {
	t.counts.Forgotten("deleted_run", runs)
	t.log.Info("deleted runs expired, their ids are free", "namespace", namespace, "runs", runs)
}
