package telemetry

import "github.com/pawl-dev/pawl/internal/runtime/machine"

func (m *Metrics) countDeliveries() {
	m.deliveries = m.counters("pawl_deliveries_total", "Attempts to deliver an event to a receiver, by kind (webhook, push) and outcome: delivered, failed (retried), dead (retries exhausted).", "kind", "outcome")
	m.faults = m.counters("pawl_delivery_faults_total", "Internal errors that delayed deliveries, by kind and by operation (at): read, store.", "kind", "at")
	// The series exist with the value 0 before the first count, so that a rate over them starts correctly.
	for _, kind := range []machine.SubscriptionKind{machine.SubscriptionWebhook, machine.SubscriptionPush} {
		for _, outcome := range []string{"delivered", "failed", "dead"} {
			m.deliveries.WithLabelValues(receiver(kind), outcome)
		}
		for _, at := range []string{"read", "store"} {
			m.faults.WithLabelValues(receiver(kind), at)
		}
	}
}

// Delivery counts an attempt of a delivery. A nil Metrics does not count.
func (m *Metrics) Delivery(kind machine.SubscriptionKind, outcome string) {
	if m != nil {
		m.deliveries.WithLabelValues(receiver(kind), outcome).Inc()
	}
}

// DeliveryFault counts an error in reading or storing a delivery. A nil Metrics does not count.
func (m *Metrics) DeliveryFault(kind machine.SubscriptionKind, at string) {
	if m != nil {
		m.faults.WithLabelValues(receiver(kind), at).Inc()
	}
}

func receiver(kind machine.SubscriptionKind) string {
	switch kind {
	case machine.SubscriptionPush:
		return "push"
	case machine.SubscriptionWebhook:
		return "webhook"
	case machine.SubscriptionConsumer:
		return "consumer"
	}
	return "other"
}
