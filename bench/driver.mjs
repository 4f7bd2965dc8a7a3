// Measures turns of runs that the TypeScript client drives itself, for `sidecar bench`. Its
// argument is the client's index.js. It reads jobs as JSON lines ({target, mode, runs, pack,
// warm_ms, window_ms, event, artifact, bytes}) and answers each with {per_sec, p50_us,
// p99_us}: turns/s in the window, and the round trip of a turn of one run, from its handler
// to the handler of the next. Mode "stream" is the client as it is, whose drivers share a
// Drive stream; "unary" the same loop with a call for each request. The end of the input
// ends it.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const index = pathToFileURL(process.argv[2]);
const { PawlClient } = await import(index.href);
// What the package does not export: a connection whose drivers share nothing.
const [{ Connection }, { nodeTransport }, { Run }] = await Promise.all(
  ["connection.js", "node_transport.js", "run.js"].map((file) => import(new URL(file, index).href)),
);

/** The handler of all runs: counts what it sees, and stops the runs behind the window. */
function handlerOf(job, stop) {
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
  return { handler, trips };
}

async function measure(job) {
  const client = new PawlClient({ address: job.target });
  const { transport, sessions } = nodeTransport({ address: job.target });
  const alone = new Connection(transport, {});
  const controllers = Array.from({ length: job.runs }, () => new AbortController());
  const stop = () => {
    for (const controller of controllers) controller.abort();
  };
  const { handler, trips } = handlerOf(job, stop);
  const one = async ({ signal }) => {
    const { id } = await client.open(job.pack);
    const run = job.mode === "unary" ? new Run(alone, id) : client.attach(id);
    await run.drive(handler, { signal }).catch((error) => {
      if (!signal.aborted) throw error;
    });
  };
  await Promise.all(controllers.map(one));
  client.close();
  sessions.abort();
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
