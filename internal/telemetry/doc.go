// Package telemetry reports what a sidecar does: OpenTelemetry traces made from records, metrics for Prometheus
// and OpenTelemetry, and lines of the log about runs.
//
// Guarantees: the package observes each commit after it is stored and never delays one. No payload, artifact, message or token enters a
// trace or a metric.
package telemetry
