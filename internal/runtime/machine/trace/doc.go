// Package trace makes OpenTelemetry spans from a run's records. It is pure: ids and times come only
// from the journal. So a restart does not break a trace, and every reader of the same records makes the
// same spans.
//
// Package telemetry exports the spans. The engine uses this package for the trace context of a turn or
// a step. Workers and agents receive this context.
package trace
