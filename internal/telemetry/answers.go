package telemetry

import "sync"

// maxRefusals bounds the series of refused calls. Methods and reasons are constants of this program, and far fewer pairs occur. Pairs
// beyond the bound would be counted together.
const maxRefusals = 1000

// otherLabel is the label value of the series for all values beyond a bound.
const otherLabel = "other"

func (m *Metrics) countAnswers() {
	m.refused = m.counters("pawl_calls_refused_total", "Calls that were refused, by method and reason.", "method", "reason")
	m.ignored = m.counters("pawl_step_answers_ignored_total", "Answers to steps that changed nothing, by disposition: unknown_run, terminal, stale, duplicate.", "disposition")
	// The series exist with the value 0 before the first count, so that a rate over them starts correctly.
	for _, disposition := range []string{"unknown_run", "terminal", "stale", "duplicate"} {
		m.ignored.WithLabelValues(disposition)
	}
}

// Refused counts a refused call. A nil Metrics does not count.
func (m *Metrics) Refused(method, reason string) {
	if m == nil {
		return
	}
	if !m.refusals.admit([2]string{method, reason}, maxRefusals) {
		method, reason = otherLabel, otherLabel
	}
	m.refused.WithLabelValues(method, reason).Inc()
}

// Ignored counts an answer to a step that had no effect, by the reason (disposition). A nil Metrics does not count.
func (m *Metrics) Ignored(disposition string) {
	if m != nil {
		m.ignored.WithLabelValues(disposition).Inc()
	}
}

// labels are the label values that have their own time series. A cache that drops old values would not do, because a
// time series cannot be removed without the loss of its count.
type labels[K comparable] struct {
	mu    sync.Mutex
	known map[K]struct{}
}

// admit reports whether the value has its own time series. It adds a value while there are fewer than most.
func (l *labels[K]) admit(value K, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[value]; ok {
		return true
	}
	if len(l.known) >= most {
		return false
	}
	if l.known == nil {
		l.known = make(map[K]struct{})
	}
	l.known[value] = struct{}{}
	return true
}
