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
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// retentionPolicy returns the configured rules by which ended runs are archived and deleted. It creates
// the directories of the archives and checks that files can be written in them. counts is nil if
// metrics are off.
func retentionPolicy(opts options, counts *telemetry.Metrics) (retention.Policy, error) {
	c := opts.config
	teller := &retentionReporter{log: opts.log, audit: opts.audit, counts: counts}
	p := retention.Policy{
		Every: c.RetentionEvery, Grace: c.RetentionGrace, Preview: c.RetentionPreview, ForgetAfter: c.DeletedRunRetention,
		Before: teller.line, OnResult: teller.taken, OnForgotten: teller.reportDeleted, OnError: teller.fault, CheckSpace: checkArchiveSpace,
	}
	if opts.audit != nil {
		p.Ready = opts.audit.Ready
	}
	for i, r := range c.Rules() {
		if r.Keep {
			p.Rules = append(p.Rules, retention.Rule{Name: r.Name, Namespace: r.Namespace, Statuses: statusesOf(r.Status), Labels: labelsOf(r.Label)})
			continue
		}
		if err := writable(r.Archive, opts.servesNamespace); err != nil {
			return p, &config.Error{Faults: []config.Fault{{Field: fmt.Sprintf("retention[%d].archive", i), Message: err.Error()}}}
		}
		p.Rules = append(p.Rules, retention.Rule{
			Name: r.Name, Namespace: r.Namespace, Statuses: statusesOf(r.Status), Labels: labelsOf(r.Label),
			OlderThan: r.OlderThan, KeepNewest: r.KeepNewest, MaxBytes: int64(r.MaxBytes), Archive: r.Archive,
		})
	}
	return p, nil
}

// leftFree is the disk space that archiving leaves free, in bytes. The store may be on the same disk.
// It refuses new work at a lower free space, so archives do not cause this.
const leftFree = 320 << 20

// checkArchiveSpace returns an error if the disk of an archive directory has less free space than
// leftFree.
func checkArchiveSpace(dir string) error {
	return (&datadir.Disk{Dir: dir, Free: datadir.FreeSpace}).CheckNow(leftFree)
}

// endsOf returns the configured retention of inactive consumers and of dead letters.
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

// statusesOf returns the statuses with these names. The configuration has already checked the names.
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

// writable creates an archive directory and tests that files can be written in it. For "" it does
// nothing. It also removes incomplete archives that a crash has left, in the namespaces for which
// serves returns true. If serves is nil, it removes those of all namespaces.
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

// taken reports what a retention rule did to a run: in the log, in the metrics and, if the run was announced, in
// the audit log.
func (t *retentionReporter) taken(r retention.RunOutcome) {
	attrs := []any{"rule", r.Rule, "namespace", r.Namespace, "run_id", r.RunID, "bytes", r.Bytes}
	switch r.Outcome {
	case retention.Deleted:
		t.counts.Retained(string(r.Outcome), r.Bytes, r.ArchivedBytes)
		t.log.Debug("run deleted by retention", append(attrs, "archive", r.Archive)...)
		return
	case retention.WouldDelete:
		t.log.Info("run selected by retention preview", attrs...)
	case retention.Needed:
		t.log.Debug("run kept by retention, still needed", attrs...)
	case retention.Gone:
		t.log.Debug("run already deleted by a caller", attrs...)
	case retention.Unarchived:
		t.log.Error("run not deleted, writing its archive failed", append(attrs, "error", r.Err)...)
	case retention.Failed:
		t.log.Error("deleting run failed", append(attrs, "error", r.Err)...)
	}
	if r.Outcome != retention.Gone {
		t.counts.Retained(string(r.Outcome), 0, r.ArchivedBytes)
	}
	if r.Announced && t.audit != nil {
		t.reportKept(r)
	}
}

// reportKept writes an audit line which says that a run was not deleted. The audit log already has the line
// that announced the deletion.
func (t *retentionReporter) reportKept(r retention.RunOutcome) {
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

// line writes the audit line about a deletion before the run is deleted. If the line cannot be written,
// the run is not deleted. So no run is deleted without a line, but after a crash the line may appear
// twice.
func (t *retentionReporter) line(r retention.RunOutcome) error {
	if t.audit == nil {
		return nil
	}
	return t.audit.Add(lineOf(r))
}

func lineOf(r retention.RunOutcome) audit.Entry {
	e := audit.Entry{
		Principal: retention.Principal, Namespace: r.Namespace, Resource: r.RunID, Method: "retention", Outcome: "OK", Note: "rule " + r.Rule,
	}
	if r.Archive != "" {
		e.Note += ", archived as " + r.Archive
	}
	return e
}

// fault logs an error that ended a pass of retention over the runs. The next pass starts from the
// beginning.
func (t *retentionReporter) fault(err error) {
	t.log.Error("retention incomplete, retrying", "error", err)
}

func (t *retentionReporter) reportDeleted(namespace string, runs int) {
	t.counts.Forgotten("deleted_run", runs)
	t.log.Info("deleted runs expired, their ids are free", "namespace", namespace, "runs", runs)
}
