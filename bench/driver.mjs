// Measures turns of runs that the TypeScript client drives itself, for `pawl-bench`. Its
// argument is the client's index.js. It reads jobs as JSON lines ({target, mode, runs, pack,
// warm_ms, window_ms, event, artifact, bytes}) and answers each with {per_sec, p50_us,
// p99_us}: turns/s in the window, and the round trip of a turn of one run, from its handler
// to the handler of the next. Mode "stream" is the client as it is, which serves all runs over
// one stream; "unary" a loop of GetTurn and CompleteTurn, call by call. The end of the input
// ends it.
import { pathToFileURL } from "node:url";
import { answer, turnsOf } from "./turns.mjs";

const { PawlClient } = await import(pathToFileURL(process.argv[2]).href);

const drives = {
  stream: (run, handler, signal) => run.drive(handler, { signal }),
  unary: async (run, handler, signal) => {
    for (;;) {
      const info = await run.turn({ signal });
      await run.complete(info.turn, handler(info.turn), { signal, slots: info.artifactSlots });
    }
  },
};

await answer(async (job) => {
  const client = new PawlClient({ address: job.target });
  const controllers = Array.from({ length: job.runs }, () => new AbortController());
  const stop = () => {
    for (const controller of controllers) controller.abort();
  };
  const { handler, figures } = turnsOf(job, stop);
  const one = async ({ signal }) => {
    const run = await client.open(job.pack);
    await drives[job.mode](run, handler, signal).catch((error) => {
      if (!signal.aborted) throw error;
    });
  };
  await Promise.all(controllers.map(one));
  client.close();
  return figures();
});
