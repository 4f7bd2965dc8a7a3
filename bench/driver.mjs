// Measures turns of runs that the TypeScript client drives itself, for `sidecar bench`. Its
// argument is the client's index.js. It reads jobs as JSON lines ({target, mode, runs, pack,
// warm_ms, window_ms, event, artifact, bytes}) and answers each with {per_sec, p50_us,
// p99_us}: turns/s in the window, and the round trip of a turn of one run, from its handler
// to the handler of the next. Mode "stream" is the client as it is, whose drivers share a
// Drive stream; "unary" the same loop with a call for each request. The end of the input
// ends it.
import { pathToFileURL } from "node:url";
import { answer, turnsOf } from "./turns.mjs";

const index = pathToFileURL(process.argv[2]);
const { PawlClient } = await import(index.href);
// What the package does not export: a connection whose drivers share nothing.
const [{ Connection }, { nodeTransport }, { Run }] = await Promise.all(
  ["connection.js", "node_transport.js", "run.js"].map((file) => import(new URL(file, index).href)),
);

await answer(async (job) => {
  const client = new PawlClient({ address: job.target });
  const { transport, sessions } = nodeTransport({ address: job.target });
  const alone = new Connection(transport, {});
  const controllers = Array.from({ length: job.runs }, () => new AbortController());
  const stop = () => {
    for (const controller of controllers) controller.abort();
  };
  const { handler, figures } = turnsOf(job, stop);
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
  return figures();
});
