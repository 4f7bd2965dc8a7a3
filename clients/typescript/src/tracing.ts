/** Adds the traces of handlers to the trace of the run, if OpenTelemetry is installed. */

type Api = typeof import("@opentelemetry/api");

/** The optional package. Undefined means that it is not installed. */
const api: Promise<Api | undefined> = import("@opentelemetry/api").catch(() => undefined);

/** Runs work with a W3C trace context as the current one; empty: the context does not change. */
export function traced<T>(traceparent: string, work: () => Promise<T>): Promise<T> {
  return traceparent === "" ? work() : within(traceparent, work);
}

async function within<T>(traceparent: string, work: () => Promise<T>): Promise<T> {
  const found = await api;
  const parent = found && spanContextOf(traceparent);
  if (!parent) {
    return work();
  }
  return found.context.with(found.trace.setSpanContext(found.context.active(), parent), work);
}

/** Converts a traceparent of W3C Trace Context. Undefined means that it is invalid. */
function spanContextOf(traceparent: string) {
  const parts = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})/.exec(traceparent);
  const [, traceId, spanId, flags] = parts ?? [];
  if (!traceId || !spanId || !flags) {
    return undefined;
  }
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
}
