// Measures turns through the TypeScript worker, for `sidecar bench`. Its argument is the
// client's index.js. It reads jobs as JSON lines ({target, runs, warm_ms, window_ms, event,
// artifact, bytes}) and answers each with {per_sec, p50_us, p99_us}: turns/s in the window,
// and the round trip of a turn of one run, from assignment to the assignment of the next.
// The end of the input ends it.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { PawlClient } = await import(pathToFileURL(process.argv[2]).href);

async function measure(job) {
  const client = new PawlClient({ address: job.target });
  const worker = client.worker({ workerId: "bench", turns: job.runs, drainTimeoutMs: 1000 });
  const reply = { event: job.event, artifacts: { [job.artifact]: "x".repeat(job.bytes) } };
  const seen = new Map();
  const trips = [];
  let first;
  worker.prompt("*", (turn) => {
    const now = performance.now();
    first ??= now;
    if (now - first > job.warm_ms + job.window_ms) {
      void worker.stop();
      return reply;
    }
    const before = seen.get(turn.runId);
    if (before !== undefined && before - first >= job.warm_ms) trips.push(now - before);
    seen.set(turn.runId, now);
    return reply;
  });
  await worker.run();
  client.close();
  trips.sort((a, b) => a - b);
  const quantile = (q) => (trips.length ? trips[Math.floor(q * (trips.length - 1))] * 1000 : 0);
  return {
    per_sec: (trips.length / job.window_ms) * 1000,
    p50_us: quantile(0.5),
    p99_us: quantile(0.99),
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await measure(JSON.parse(line)).catch((error) => ({ error: String(error) }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
