// Package telemetry tells operators what a sidecar does: OpenTelemetry traces made
// from records, and metrics for Prometheus. It hears of each commit after it and
// never holds one up; no payload, artifact, message or token enters it.
package telemetry
