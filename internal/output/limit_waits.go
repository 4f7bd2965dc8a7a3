package output

import (
	"fmt"
	"strings"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// LimitWaitLines returns one line for each call of a run that waits for a limit of the operator. It returns none if no call waits.
func LimitWaitLines(r *pawlv1.Run) []string {
	lines := make([]string, 0, len(r.GetWaitingFor()))
	for _, w := range r.GetWaitingFor() {
		what := "model " + w.GetModel()
		if w.GetTool() != "" {
			what = fmt.Sprintf("tool %s, step %d", w.GetTool(), w.GetStep())
		}
		line := fmt.Sprintf("%s: %s, for %s", limitsOf(w), what, w.GetWaited().AsDuration().Round(100*time.Millisecond))
		if n := w.GetAhead(); n > 0 {
			line += fmt.Sprintf(", %d before it", n)
		}
		lines = append(lines, line)
	}
	return lines
}

// WaitReason returns the limit that a run has waited for longest. It returns "" if the run does not wait for a limit.
func WaitReason(r *pawlv1.Run) string {
	if len(r.GetWaitingFor()) == 0 {
		return ""
	}
	return "waits for " + limitsOf(r.GetWaitingFor()[0])
}

// limitsOf returns the names of the limits that count a call, each with its key.
func limitsOf(w *pawlv1.LimitWait) string {
	names := make([]string, len(w.GetLimits()))
	for i, l := range w.GetLimits() {
		names[i] = l.GetLimit()
		if key := l.GetKey(); key != "" && key != l.GetLimit() {
			names[i] += " (" + key + ")"
		}
	}
	return "limit " + strings.Join(names, ", ")
}
