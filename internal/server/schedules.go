package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	rpccode "google.golang.org/genproto/googleapis/rpc/code"

	"github.com/pawl-dev/pawl/internal/audit"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/grpcapi/apierror"
	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
	"github.com/pawl-dev/pawl/internal/runtime/schedule"
	"github.com/pawl-dev/pawl/internal/services"
	"github.com/pawl-dev/pawl/internal/telemetry"
)

// readSchedules reads the schedules that start runs. served are the namespaces that exist.
func readSchedules(c config.Config, served []string) ([]*schedule.Schedule, error) {
	if c.Schedules == "" {
		return nil, nil
	}
	file, place, err := config.ReadSchedules(c.Schedules, served)
	if err != nil {
		return nil, err
	}
	var faults []config.Fault
	out := make([]*schedule.Schedule, 0, len(file))
	for i := range file {
		s, field, why := scheduleOf(&file[i])
		if why != "" {
			faults = append(faults, config.Fault{Field: place(file[i].ID + "." + field), Message: why})
		}
		out = append(out, s)
	}
	if len(faults) > 0 {
		return nil, &config.Error{Faults: faults}
	}
	return out, nil
}

// catchUps maps the values of catch_up in the schedules file to policies. The configuration has already
// checked the values.
var catchUps = map[string]schedule.CatchUp{"none": schedule.CatchNone, "last": schedule.CatchLast, "all": schedule.CatchAll}

// scheduleOf converts an entry of the schedules file to a schedule. If the entry is wrong, it returns
// the name of the wrong field and the fault.
func scheduleOf(from *config.Schedule) (s *schedule.Schedule, field, why string) {
	rule, err := schedule.ParseCron(from.Cron, from.Zone)
	if err != nil {
		return nil, "cron", err.Error()
	}
	if rule.Next(time.Now()).IsZero() {
		return nil, "cron", "never fires: within five years there is no such day"
	}
	p := runtime.Principal{Subject: from.Principal, Namespaces: []string{from.Namespace}}
	if slices.Contains(policy.Reserved(), p.Subject) || !policy.IsPrincipalName(p.Subject) {
		return nil, "principal", "is a name of the sidecar's own"
	}
	for _, name := range from.Scopes {
		scope, ok := policy.ScopeByName(name)
		if !ok {
			return nil, "scopes", name + " is none of " + policy.AllScopes.String()
		}
		p.Scopes |= scope
	}
	if !p.Scopes.Has(policy.RunsWrite) {
		return nil, "scopes", "lacks runs:write, which is required to start a run"
	}
	s = &schedule.Schedule{
		Namespace: from.Namespace, ID: from.ID, Rule: rule, Catch: catchUps[from.CatchUp], Most: *from.CatchUpMost,
		StartingDeadline: time.Duration(*from.MissedAfterSec) * time.Second, Jitter: time.Duration(from.JitterSec) * time.Second, Skip: from.Overlap == "skip", Paused: from.Paused,
		Start: runtime.StartRequest{
			Call: runtime.Call{Namespace: from.Namespace, Principal: p}, Pack: from.Pack, Agent: from.Agent, State: from.Entry,
			Variables: from.JSON, Execution: machine.Workers, Labels: labelsOf(from.Labels), MaxWallTime: time.Duration(from.MaxWallTimeSec) * time.Second,
		},
	}
	slices.SortFunc(s.Start.Labels, func(a, b machine.Label) int { return strings.Compare(a.Key, b.Key) })
	if from.Execution == "SIDECAR" {
		s.Start.Execution = machine.Sidecar
	}
	if from.Input != "" {
		s.Start.Input = []machine.Part{{Kind: machine.PartText, Text: from.Input}}
	}
	return s, "", ""
}

// scheduling adds the store for schedules, and the reporter of their results, to the configuration of
// the runtime.
func (t *partition) scheduling(conf *services.Config, counts *telemetry.Metrics) {
	conf.ScheduleStore = t.store.Schedules()
	conf.OnScheduleResult = (&scheduleReporter{log: t.opts.log, audit: t.opts.audit, counts: counts}).onResult
	if t.opts.audit != nil {
		conf.Starts = t.opts.audit.Ready
	}
}

// scheduleReporter reports the results of schedules to the log, the metrics and the audit log.
type scheduleReporter struct {
	log    *slog.Logger
	audit  *audit.Log
	counts *telemetry.Metrics
}

// onResult reports the result of an instant of a schedule in the log and in the metrics.
func (t *scheduleReporter) onResult(of schedule.Result) {
	t.counts.Instants(of.Schedule.ID, string(of.Outcome), of.N)
	attrs := []any{"schedule_id", of.Schedule.ID, "namespace", of.Schedule.Namespace, "instant", of.Instant.UTC()}
	switch of.Outcome {
	case schedule.Fired:
		t.log.Info("schedule started run", append(attrs, "run_id", of.RunID)...)
	case schedule.Skipped:
		t.log.Info("schedule skipped, previous run still active", attrs...)
	case schedule.Missed:
		t.log.Warn("schedule missed, not run later", append(attrs, "count", of.N)...)
	case schedule.Failed:
		t.log.Error("schedule failed to start run, retrying", append(attrs, "attempt", of.Attempts, "error", of.Err)...)
	}
	t.line(&of)
}

// line writes an audit line when a schedule has started a run, or when the first attempt to start it
// has failed.
func (t *scheduleReporter) line(of *schedule.Result) {
	if t.audit == nil || of.Outcome != schedule.Fired && (of.Outcome != schedule.Failed || of.Attempts > 1) {
		return
	}
	p := &of.Schedule.Start.Principal
	e := audit.Entry{
		Principal: p.Name(), Namespace: of.Schedule.Namespace, Resource: of.RunID, Method: "schedule", Outcome: rpccode.Code_OK.String(),
		Note: "schedule " + of.Schedule.ID + " at " + of.Instant.UTC().Format(time.RFC3339) + " with " + p.Scopes.String(),
	}
	if of.Err != nil {
		st, _ := apierror.Status(of.Err)
		e.Outcome = rpccode.Code(st.Code()).String()
	}
	if refusal, ok := errors.AsType[*machine.Error](of.Err); ok {
		e.Reason = refusal.Reason
	}
	if err := t.audit.Add(e); err != nil {
		t.log.Error("audit line of schedule not written", "schedule_id", of.Schedule.ID, "run_id", of.RunID, "error", err)
	}
}

// storeSchedules stores the configured schedules when the sidecar starts. It is called after the packs were
// registered.
func (t *partition) storeSchedules(ctx context.Context) error {
	return t.schedule(ctx, t.files.schedules)
}

// schedule stores the schedules that belong to namespaces of this partition. A missing pack causes only
// a warning, because the pack may be registered before the schedule first fires.
func (t *partition) schedule(ctx context.Context, schedules []*schedule.Schedule) error {
	if t.opts.config.Schedules == "" {
		return nil
	}
	if serves := t.opts.servesNamespace; serves != nil {
		schedules = slices.DeleteFunc(slices.Clone(schedules), func(s *schedule.Schedule) bool { return !serves(s.Namespace) })
	}
	if err := t.runtime.Schedules.Replace(ctx, schedules); err != nil {
		return err
	}
	for _, s := range schedules {
		ns, err := t.runtime.Namespace(s.Namespace)
		if err == nil {
			_, err = t.store.Pack(ctx, ns, s.Start.Pack)
		}
		if err != nil {
			t.opts.log.Warn("schedule blocked, its pack is not registered", "schedule_id", s.ID, "namespace", s.Namespace, "pack", s.Start.Pack, "error", err)
		}
	}
	return nil
}
