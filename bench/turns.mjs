// What the programs of `pawl-bench` in this directory share: jobs in, figures out.
import { createInterface } from "node:readline";

/** The handler of a job's turns, which stops behind the window, and their figures. */
export function turnsOf(job, stop) {
  const reply = { event: job.event, artifacts: { [job.artifact]: "x".repeat(job.bytes) } };
  const seen = new Map();
  const trips = [];
  let first;
  const handler = (turn) => {
    const now = performance.now();
    first ??= now;
    if (now - first > job.warm_ms + job.window_ms) {
      stop();
      return reply;
    }
    const before = seen.get(turn.runId);
    if (before !== undefined && before - first >= job.warm_ms) trips.push(now - before);
    seen.set(turn.runId, now);
    return reply;
  };
  return { handler, figures: () => figuresOf(trips, job.window_ms) };
}

/** {per_sec, p50_us, p99_us} of round trips in milliseconds. */
function figuresOf(trips, windowMs) {
  trips.sort((a, b) => a - b);
  const quantile = (q) => (trips.length ? trips[Math.floor(q * (trips.length - 1))] * 1000 : 0);
  return {
    per_sec: (trips.length / windowMs) * 1000,
    p50_us: quantile(0.5),
    p99_us: quantile(0.99),
  };
}

/** Answers each job on standard input, a line of JSON, until it ends. */
export async function answer(measure) {
  for await (const line of createInterface({ input: process.stdin })) {
    const found = await measure(JSON.parse(line)).catch((error) => ({ error: String(error) }));
    process.stdout.write(`${JSON.stringify(found)}\n`);
  }
}
