package telemetry

// countRetention creates the metrics of retention.
func (m *Metrics) countRetention() {
	m.retained = m.counters("pawl_retention_runs_total", "Ended runs selected by retention rules, by outcome: deleted, would_delete (preview), needed (a parent run or an agent still needs it), unarchived (kept, the archive could not be written), failed (kept).", "outcome")
	m.freed = m.counters("pawl_retention_bytes_total", "Bytes of runs selected by retention rules, by what: deleted (their rows), archived (their files).", "what")
	m.forgotten = m.counters("pawl_retention_expired_total", "Records removed by age or number, by what: deleted_run, consumer, dead_letter.", "what")
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

// Retained counts a run that the retention rules do not keep. outcome is what happened to the run. deleted and
// archived are numbers of bytes. A nil Metrics does not count.
func (m *Metrics) Retained(outcome string, deleted, archived int64) {
	if m == nil {
		return
	}
	m.retained.WithLabelValues(outcome).Inc()
	m.freed.WithLabelValues("deleted").Add(float64(deleted))
	m.freed.WithLabelValues("archived").Add(float64(archived))
}

// Forgotten counts n old entries that were removed from the store. The parameter what names their kind. A nil Metrics
// does not count.
func (m *Metrics) Forgotten(what string, n int) {
	if m != nil {
		m.forgotten.WithLabelValues(what).Add(float64(n))
	}
}
