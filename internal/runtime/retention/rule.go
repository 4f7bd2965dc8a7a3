package retention

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Rule defines how long some of the ended runs are kept.
type Rule struct {
	// Name is the name of the rule. It is reported with each run that the rule selects.
	Name string
	// Namespace, Statuses and Labels select the runs of the rule. A run must be in the namespace, have
	// one of the statuses, and have all of the labels. An empty field selects all runs.
	Namespace string
	Statuses  []machine.Status
	Labels    []machine.Label
	// The next three fields are limits. A run is deleted when one of the limits that are set does not
	// keep it. If none is set, all runs are kept.
	//
	// OlderThan is the time since the end of the run. 0 means that there is no limit.
	OlderThan time.Duration
	// KeepNewest is the number of runs of a namespace that are kept. These are the runs that began
	// last. 0 means all runs.
	KeepNewest int
	// MaxBytes is the total size of the kept runs of a namespace, without blobs. 0 means that there is
	// no limit.
	MaxBytes int64
	// Archive is the directory of the files that are written before the deletion. If it is "", no files
	// are written. A rule with an archive never selects a run with erasable or erased values.
	Archive string
}

// about reports whether the rule applies to the run, provided that no earlier rule does.
func (r *Rule) about(namespace string, st *machine.State) bool {
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

// ruleUsage holds what one rule has counted in one namespace. The count begins with the newest run.
type ruleUsage struct {
	runs  int
	bytes int64
	// faults is the number of consecutive runs that could not be archived or deleted.
	faults int
}

// expires reports whether the rule does not keep the run. t must already count the run.
func (r *Rule) expires(t *ruleUsage, st *machine.State, now time.Time) bool {
	return r.OlderThan > 0 && now.Sub(time.Unix(0, st.StatusAt)) >= r.OlderThan ||
		r.KeepNewest > 0 && t.runs > r.KeepNewest ||
		r.MaxBytes > 0 && t.bytes > r.MaxBytes
}

// neverArchives reports whether the rule archives but the run has erasable or erased values. No file is
// ever written of such a run.
func (r *Rule) neverArchives(st *machine.State) bool {
	return r.Archive != "" && (st.Erasable || st.Erased != nil)
}

// ruleOf returns the index of the first rule that selects a run. It returns -1 if no rule selects it.
func ruleOf(rules []Rule, namespace string, st *machine.State) int {
	return slices.IndexFunc(rules, func(r Rule) bool { return r.about(namespace, st) })
}
