package telemetry

import "sync"

// maxRefusals bounds the series of refused calls. Methods and reasons are constants of this program, and far fewer pairs occur. Pairs
// beyond the bound would be counted together.
const maxRefusals = 1000

// otherLabel is the label value for all pairs beyond a bound.
const otherLabel = "other"

func (m *Metrics) countAnswers() {
	m.refused = m.counters("pawl_calls_refused_total", "Calls that were refused, by method and reason.", "method", "reason")
	m.ignored = m.counters("pawl_step_answers_ignored_total", "Answers to steps that changed nothing, by disposition: unknown_run, terminal, stale, duplicate.", "disposition")
	// The series exist with the value 0 before the first count, so that a rate over them starts correctly.
	for _, disposition := range []string{"unknown_run", "terminal", "stale", "duplicate"} {
		m.ignored.WithLabelValues(disposition)
	}
}

// Refused counts a refused call. A nil Metrics counts nothing.
func (m *Metrics) Refused(method, reason string) {
	if m == nil {
		return
	}
	if !m.refusals.admit(method, reason) {
		method, reason = otherLabel, otherLabel
	}
	m.refused.WithLabelValues(method, reason).Inc()
}

// Ignored counts an answer to a step that had no effect. A nil Metrics counts nothing.
func (m *Metrics) Ignored(disposition string) {
	if m != nil {
		m.ignored.WithLabelValues(disposition).Inc()
	}
}

// pairs are the pairs of method and reason that have their own series. It is not an LRU, because a series must not disappear.
type pairs struct {
	mu    sync.Mutex
	known map[[2]string]struct{}
}

func (p *pairs) admit(method, reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]string{method, reason}
	if _, ok := p.known[key]; ok {
		return true
	}
	if len(p.known) >= maxRefusals {
		return false
	}
	if p.known == nil {
		p.known = make(map[[2]string]struct{})
	}
	p.known[key] = struct{}{}
	return true
}
