package retention

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/policy"
	"github.com/pawl-dev/pawl/internal/runtime"
	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Principal is the name of the principal that is recorded for deletions by a rule.
const Principal = policy.RetentionName

// pageRuns is the number of runs that a round (one application of the retention rules) lists at once. It
// pauses after each list.
const pageRuns = 100

// pauseFactor is the length of a pause in a round, as a multiple of the working time before it.
const pauseFactor = 3

// mostFaults is the number of consecutive errors after which a rule does nothing more in a round,
// because the disk of its archive may be full.
const mostFaults = 10

// Outcome is what a round (one application of the retention rules) has done with a run that its rule
// does not keep.
type Outcome string

const (
	// Deleted means that the run was deleted. WouldDelete means that it would have been deleted if
	// Policy.Preview were not set.
	Deleted     Outcome = "deleted"
	WouldDelete Outcome = "would_delete"
	// Needed means that the run is kept for now, because its parent is active or an agent has not
	// received its cancellation.
	Needed Outcome = "needed"
	// Unarchived means that the run is kept because its archive file could not be written. Failed means
	// that the run could not be deleted.
	Unarchived Outcome = "unarchived"
	Failed     Outcome = "failed"
	// Gone means that a caller deleted the run before the rule did.
	Gone Outcome = "gone"
)

// RunOutcome is the result of a round for one run that its rule does not keep.
type RunOutcome struct {
	Rule      string
	Namespace string
	RunID     string
	Outcome   Outcome
	// Bytes is the approximate size of the run's rows. Archive is the path of the run's archive file,
	// and ArchivedBytes is the size of the file.
	Bytes         int64
	Archive       string
	ArchivedBytes int64
	Err           error
	// Announced reports whether Policy.Before was called for the run.
	Announced bool
}

// Run executes rounds at regular intervals. A round deletes the runs that their rules do not keep. Run
// returns when ctx ends.
func (r *Service) Run(ctx context.Context) error {
	for {
		select {
		case <-r.cfg.Clock.After(r.cfg.Every):
		case <-ctx.Done():
			return nil
		}
		if err := r.Round(ctx); err != nil && ctx.Err() == nil && r.cfg.Engine.Health() == nil {
			r.cfg.OnError(err)
		}
	}
}

// Round deletes the runs that their rules do not keep, and drops old data about deleted runs. An error
// of one run is reported, and the round continues with the other runs and with Config.Also.
func (r *Service) Round(ctx context.Context) error {
	err := r.runs(ctx)
	if r.cfg.Also != nil && !r.cfg.Preview {
		err = errors.Join(err, r.cfg.Engine.DoInFlight(func() error { return r.cfg.Also(ctx) }))
	}
	return err
}

// runs applies the rules to the runs of all namespaces.
func (r *Service) runs(ctx context.Context) error {
	if len(r.cfg.Rules) == 0 && r.cfg.ForgetAfter == 0 {
		return nil
	}
	var errs []error
	for _, ns := range slices.Sorted(slices.Values(r.cfg.Engine.NamespaceNumbers())) {
		if err := r.ready(ctx); err != nil {
			return errors.Join(append(errs, err)...)
		}
		err := r.applyRules(ctx, ns)
		if unready := r.ready(ctx); unready != nil {
			return errors.Join(append(errs, err, unready)...)
		}
		errs = append(errs, err, r.forget(ctx, ns))
	}
	return errors.Join(errs...)
}

// ready returns nil if runs may be deleted now. Otherwise the error says why not.
func (r *Service) ready(ctx context.Context) error {
	err := errors.Join(ctx.Err(), r.cfg.Engine.Health())
	if err == nil && r.cfg.Store != nil && !r.cfg.Preview {
		// The store may refuse to delete runs. Without this check, each run would be archived before its
		// deletion is refused.
		err = r.cfg.Store.CheckRemovalSpace()
	}
	if err == nil && r.cfg.Ready != nil {
		err = r.cfg.Ready()
	}
	return err
}

// isFresh reports whether the run has ended so recently that it is kept independent of the rules.
func (r *Service) isFresh(st *machine.State, now time.Time) bool {
	grace := r.cfg.Grace
	if st.Parent != nil && st.Parent.Origin != "" {
		grace = max(grace, remoteGrace)
	}
	return now.Sub(time.Unix(0, st.StatusAt)) < grace
}

// forget drops the stored data about runs of a namespace that were deleted long ago.
func (r *Service) forget(ctx context.Context, ns uint32) error {
	if r.cfg.ForgetAfter == 0 || r.cfg.Preview {
		return nil
	}
	before := r.cfg.Clock.Now().Add(-r.cfg.ForgetAfter).UnixNano()
	return r.cfg.Engine.DoInFlight(func() error {
		n, err := r.cfg.Store.ForgetDeleted(ctx, ns, before)
		if n > 0 {
			r.cfg.OnForgotten(r.cfg.Engine.NamespaceName(ns), n)
		}
		return err
	})
}

// applyRules applies the rules to the ended runs of a namespace, beginning with the newest run.
func (r *Service) applyRules(ctx context.Context, ns uint32) error {
	if len(r.cfg.Rules) == 0 {
		return nil
	}
	sweep := &sweep{Service: r, ns: ns, name: r.cfg.Engine.NamespaceName(ns), usage: make([]ruleUsage, len(r.cfg.Rules))}
	filter := machine.RunFilter{Status: []machine.Status{machine.Completed, machine.BudgetExhausted, machine.Escalated, machine.Failed, machine.Cancelled}}
	for after := ""; ; {
		began := r.cfg.Clock.Elapsed()
		runs, next, err := r.cfg.Runs.ListRuns(ctx, ns, filter, after, pageRuns)
		if err != nil {
			return fmt.Errorf("retention: %w", err)
		}
		r.pause(ctx, began)
		for _, st := range runs {
			if err := sweep.run(ctx, st); err != nil {
				return err
			}
		}
		if after = next; next == "" {
			return nil
		}
	}
}

// pause waits after some work that began at the time `began`, so that a round uses only a share of the
// disk's throughput.
func (r *Service) pause(ctx context.Context, began time.Duration) {
	worked := r.cfg.Clock.Elapsed() - began
	if worked <= 0 {
		return
	}
	select {
	case <-r.cfg.Clock.After(pauseFactor * worked):
	case <-ctx.Done():
	}
}

// sweep is one pass of a round over the runs of a namespace.
type sweep struct {
	*Service
	ns    uint32
	name  string
	usage []ruleUsage
}

// run applies the rules to one run. An error ends the sweep.
func (s *sweep) run(ctx context.Context, st *machine.State) error {
	n := ruleOf(s.cfg.Rules, s.name, st)
	if n < 0 || st.Imported {
		// An imported run is kept for inspection, independent of its age.
		return nil
	}
	rule, usage, began := &s.cfg.Rules[n], &s.usage[n], s.cfg.Clock.Elapsed()
	key := runtime.RunKey{Namespace: s.ns, ID: st.RunID}
	size := int64(0)
	usage.runs++
	if rule.MaxBytes > 0 {
		bytes, err := s.cfg.Store.RunBytes(ctx, s.ns, st.RunID)
		if err != nil {
			return err
		}
		size = bytes
		usage.bytes += size
	}
	now := s.cfg.Clock.Now()
	if usage.faults >= mostFaults || rule.neverArchives(st) || s.isFresh(st, now) || !rule.expires(usage, st, now) {
		return nil
	}
	defer s.pause(ctx, began)
	if err := s.ready(ctx); err != nil {
		return err
	}
	taken := s.take(ctx, key, st, rule, size)
	s.cfg.OnResult(taken)
	if usage.faults++; taken.Err == nil {
		usage.faults = 0
	}
	return nil
}

// take archives a run, if its rule requires that, and deletes it. In a preview it does neither.
func (s *sweep) take(ctx context.Context, key runtime.RunKey, st *machine.State, rule *Rule, size int64) (t RunOutcome) {
	t = RunOutcome{Rule: rule.Name, Namespace: s.name, RunID: key.ID, Outcome: Needed, Bytes: size}
	if t.Err = errors.Join(s.checkUnneeded(ctx, key, st), s.checkAgentsNotified(ctx, key, st)); t.Err == nil && size == 0 {
		t.Bytes, t.Err = s.cfg.Store.RunBytes(ctx, key.Namespace, key.ID)
	}
	if t.Err != nil {
		return t.withOutcome(Failed)
	}
	if s.cfg.Preview {
		t.Outcome = WouldDelete
		return t
	}
	if rule.Archive != "" {
		if t.Archive, t.ArchivedBytes, t.Err = s.archiveRun(ctx, rule.Archive, s.name, key, st); t.Err != nil {
			return t.withOutcome(Unarchived)
		}
	}
	if t.Err = s.cfg.Before(t); t.Err != nil {
		return t.withOutcome(Failed)
	}
	t.Announced = true
	_, duplicate, err := s.delete(ctx, key, machine.Deleted{By: Principal, Why: rule.Name})
	if t.Err = err; err != nil {
		return t.withOutcome(Failed)
	}
	if t.Outcome = Deleted; duplicate {
		t.Outcome = Gone
	}
	return t
}

// withOutcome sets the outcome of a run that could not be deleted. A run that is still needed will be
// deleted in a later round. A run that is missing was deleted by a caller in the meantime. In both cases
// withOutcome removes the error, because the round did not fail.
func (t RunOutcome) withOutcome(otherwise Outcome) RunOutcome {
	t.Outcome = otherwise
	if machine.IsDeleted(t.Err) {
		t.Outcome, t.Err = Gone, nil
	}
	if refusal, ok := errors.AsType[*machine.Error](t.Err); ok && (refusal.Reason == runNeeded || refusal.Reason == agentUntold) {
		t.Outcome, t.Err = Needed, nil
	}
	return t
}
