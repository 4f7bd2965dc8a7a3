package retention

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Rule says how long the ended runs that it selects are kept.
type Rule struct {
	// Name is the name of the rule. It is reported for each run that the rule deletes.
	Name string
	// Namespace, Statuses and Labels select the runs of the rule. A selected run is in the namespace,
	// has one of the statuses, and has all of the labels. An empty field selects all runs.
	Namespace string
	Statuses  []machine.Status
	Labels    []machine.Label
	// The next three fields are limits. A run is deleted if it exceeds one of the limits that are set.
	// If none is set, all runs are kept.
	//
	// OlderThan is the longest time since the end of a run. 0 means that there is no limit.
	OlderThan time.Duration
	// KeepNewest is how many runs are kept in each namespace: the newest of the runs that the rule selects.
	// 0 means that there is no limit.
	KeepNewest int
	// MaxBytes is the total size of the runs that are kept in each namespace, in bytes and without blobs. The
	// newest of the runs that the rule selects are kept. 0 means that there is no limit.
	MaxBytes int64
	// Archive is the directory for the archive files that are written before runs are deleted. If it is
	// "", no files are written. A rule with an archive does not delete a run whose values are erased or
	// can be erased.
	Archive string
}

// selects reports whether the rule selects the run. Only the first rule that selects a run applies to it.
func (r *Rule) selects(namespace string, st *machine.State) bool {
	if r.Namespace != "" && r.Namespace != namespace || len(r.Statuses) > 0 && !slices.Contains(r.Statuses, st.Status) {
		return false
	}
	for _, l := range r.Labels {
		if !slices.Contains(st.Labels, l) {
			return false
		}
	}
	return true
}

// ruleUsage is what one rule has counted so far in one namespace, beginning with the newest run.
type ruleUsage struct {
	runs  int
	bytes int64
	// faults is the number of consecutive runs that could not be archived or deleted.
	faults int
}

// expires reports whether the run exceeds a limit of the rule. The usage t must already count the run.
func (r *Rule) expires(t *ruleUsage, st *machine.State, now time.Time) bool {
	return r.OlderThan > 0 && now.Sub(time.Unix(0, st.StatusAt)) >= r.OlderThan ||
		r.KeepNewest > 0 && t.runs > r.KeepNewest ||
		r.MaxBytes > 0 && t.bytes > r.MaxBytes
}

// neverArchives reports whether the rule requires an archive but the values of the run are erased or
// can be erased. The values of such a run must never be in an archive file.
func (r *Rule) neverArchives(st *machine.State) bool {
	return r.Archive != "" && (st.Erasable || st.Erased != nil)
}

// ruleOf returns the index of the first rule that selects a run, or -1 if there is none.
func ruleOf(rules []Rule, namespace string, st *machine.State) int {
	return slices.IndexFunc(rules, func(r Rule) bool { return r.selects(namespace, st) })
}
