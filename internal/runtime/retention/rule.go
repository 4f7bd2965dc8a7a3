package retention

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Rule is how long some of the ended runs are kept.
type Rule struct {
	// Name is reported with each run that the rule selects.
	Name string
	// Namespace, Statuses and Labels select the runs: those of one namespace, in one of the statuses, with
	// all of the labels; empty = all.
	Namespace string
	Statuses  []machine.Status
	Labels    []machine.Label
	// A run is deleted as soon as one of the next three limits that are set does not keep it. If none is set,
	// all runs are kept.
	//
	// OlderThan is the time since its end; 0 = no limit.
	OlderThan time.Duration
	// KeepNewest is how many runs of a namespace are kept, those that began last; 0 = all.
	KeepNewest int
	// MaxBytes is the total size of the kept runs of a namespace, without blobs; 0 = no limit.
	MaxBytes int64
	// Archive is the directory of the files that are written before; "" = none are. A rule with an archive
	// never selects a run with erasable or erased values.
	Archive string
}

// about reports whether the rule selects the run, if no earlier rule does.
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

// ruleUsage is what one rule has counted in one namespace, from the newest run on.
type ruleUsage struct {
	runs  int
	bytes int64
	// faults counts the runs in a row that could not be archived or deleted.
	faults int
}

// expires reports whether the rule does not keep the run, which is already counted in t.
func (r *Rule) expires(t *ruleUsage, st *machine.State, now time.Time) bool {
	return r.OlderThan > 0 && now.Sub(time.Unix(0, st.StatusAt)) >= r.OlderThan ||
		r.KeepNewest > 0 && t.runs > r.KeepNewest ||
		r.MaxBytes > 0 && t.bytes > r.MaxBytes
}

// neverArchives reports whether the rule archives and the run has erasable or erased values, of which no file
// is ever written.
func (r *Rule) neverArchives(st *machine.State) bool {
	return r.Archive != "" && (st.Erasable || st.Erased != nil)
}

// ruleOf returns the index of the first rule that selects a run; -1 = none does.
func ruleOf(rules []Rule, namespace string, st *machine.State) int {
	return slices.IndexFunc(rules, func(r Rule) bool { return r.about(namespace, st) })
}
