package telemetry

// countRetention makes the metrics of what is not kept.
func (m *Metrics) countRetention() {
	m.retained = m.counters("pawl_retention_runs_total", "Ended runs that no rule of retention keeps, by what became of them: deleted, would_delete (a preview), needed (a parent goes on, an agent is not told), unarchived (kept, its file could not be written), failed (kept).", "outcome")
	m.freed = m.counters("pawl_retention_bytes_total", "Bytes of such runs: what the rows of deleted ones took, and what was archived.", "what")
	m.forgotten = m.counters("pawl_forgotten_total", "What was forgotten by its age or number: deleted_run, consumer, dead_letter.", "what")
	for _, outcome := range []string{"deleted", "would_delete", "needed", "unarchived", "failed"} {
		m.retained.WithLabelValues(outcome)
	}
	for _, what := range []string{"deleted", "archived"} {
		m.freed.WithLabelValues(what)
	}
	for _, what := range []string{"deleted_run", "consumer", "dead_letter"} {
		m.forgotten.WithLabelValues(what)
	}
}

// Retained counts a run that no rule keeps; nil counts nothing.
func (m *Metrics) Retained(outcome string, deleted, archived int64) {
	if m == nil {
		return
	}
	m.retained.WithLabelValues(outcome).Inc()
	m.freed.WithLabelValues("deleted").Add(float64(deleted))
	m.freed.WithLabelValues("archived").Add(float64(archived))
}

// Forgotten counts what was forgotten; nil counts nothing.
func (m *Metrics) Forgotten(what string, n int) {
	if m != nil {
		m.forgotten.WithLabelValues(what).Add(float64(n))
	}
}
