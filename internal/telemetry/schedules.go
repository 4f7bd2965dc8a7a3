package telemetry

// countSchedules makes the metric of the operator's schedules.
func (m *Metrics) countSchedules() {
	m.instants = m.counters("pawl_schedule_instants_total", "Instants of schedules, by what became of them: fired, missed (given up), skipped (the run before goes on), failed (an attempt, made again).", "schedule", "outcome")
}

// Instants counts instants of a schedule; nil counts nothing.
func (m *Metrics) Instants(schedule, outcome string, n int) {
	if m != nil {
		m.instants.WithLabelValues(schedule, outcome).Add(float64(n))
	}
}
