package retention

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// Rule says of some runs that have ended how long they are kept.
type Rule struct {
	// Name is told with each run that the rule chose.
	Name string
	// Namespace, Statuses and Labels are which: those of one namespace, in one of the
	// statuses, with all of the labels; empty = all.
	Namespace string
	Statuses  []machine.Status
	Labels    []machine.Label
	// A run goes as soon as one of these that is set does not keep it; none is: they stay.
	//
	// OlderThan is the time since its end; 0 = any.
	OlderThan time.Duration
	// KeepNewest is how many of a namespace are kept, those that began last; 0 = all.
	KeepNewest int
	// MaxBytes is how much those of a namespace take together, without blobs; 0 = any.
	MaxBytes int64
	// Archive is the directory of the files that are written before; "" = none are. A rule that
	// has one takes no run whose values can be erased, or were.
	Archive string
}

// about: the rule decides on the run, if none before it does.
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

// ruleUsage is what one rule has met in one namespace, from the newest run on.
type ruleUsage struct {
	runs  int
	bytes int64
	// faults counts the runs in a row that could not be archived or deleted.
	faults int
}

// expires: the rule does not keep the run, which the tally has counted.
func (r *Rule) expires(t *ruleUsage, st *machine.State, now time.Time) bool {
	return r.OlderThan > 0 && now.Sub(time.Unix(0, st.StatusAt)) >= r.OlderThan ||
		r.KeepNewest > 0 && t.runs > r.KeepNewest ||
		r.MaxBytes > 0 && t.bytes > r.MaxBytes
}

// neverArchives: the rule archives what it takes, and of a run whose values can be erased, or were,
// there is never a file.
func (r *Rule) neverArchives(st *machine.State) bool {
	return r.Archive != "" && (st.Erasable || st.Erased != nil)
}

// ruleOf is the first rule that is about a run; -1: none is.
func ruleOf(rules []Rule, namespace string, st *machine.State) int {
	return slices.IndexFunc(rules, func(r Rule) bool { return r.about(namespace, st) })
}
