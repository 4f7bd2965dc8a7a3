package telemetry

// countSchedules creates the metric of the operator's schedules.
func (m *Metrics) countSchedules() {
	m.instants = m.counters("pawl_schedule_instants_total", "Scheduled times, by schedule and outcome: fired, missed (not run), skipped (the previous run had not ended), failed (an attempt, retried).", "schedule", "outcome")
}

// Instants adds n to the number of a schedule's instants with this outcome. An instant is a time at which the
// schedule should start a run. A nil Metrics does not count.
func (m *Metrics) Instants(schedule, outcome string, n int) {
	if m != nil {
		m.instants.WithLabelValues(schedule, outcome).Add(float64(n))
	}
}
