// Package trace makes OpenTelemetry spans out of a run's records. It is pure: ids and times come
// from the journal alone, so that a restart does not break a trace and a reader of the same
// records makes the same spans.
//
// Telemetry exports what it makes; the engine asks it for the context of a turn or a step, which
// workers and agents receive.
package trace
