"""Connects the spans of handlers to the trace of the run, if OpenTelemetry is installed."""

from __future__ import annotations

try:
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:  # The package `opentelemetry-api` is optional (extra `otel`).

    def enter(traceparent: str) -> None:
        """Does nothing."""

else:
    _propagator = TraceContextTextMapPropagator()

    def enter(traceparent: str) -> None:
        """Makes a W3C trace context the current one of this task; empty: changes none."""
        if traceparent:
            context.attach(_propagator.extract({"traceparent": traceparent}))
