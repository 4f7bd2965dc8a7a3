// Measures turns through the TypeScript worker, for `pawl-bench`. Its argument is the
// client's index.js. It reads jobs as JSON lines ({target, runs, warm_ms, window_ms, event,
// artifact, bytes}) and answers each with {per_sec, p50_us, p99_us}: turns/s in the window,
// and the round trip of a turn of one run, from assignment to the assignment of the next.
// The end of the input ends it.
import { pathToFileURL } from "node:url";
import { answer, turnsOf } from "./turns.mjs";

const { PawlClient } = await import(pathToFileURL(process.argv[2]).href);

await answer(async (job) => {
  const client = new PawlClient({ address: job.target });
  const worker = client.worker({ workerId: "bench", turns: job.runs, drainTimeoutMs: 1000 });
  const { handler, figures } = turnsOf(job, () => void worker.stop());
  worker.prompt("*", handler);
  await worker.run();
  client.close();
  return figures();
});
