// What a program is told that has this package twice. Arguments: the sidecar's address, the index
// of the copy that drives and works, and the index of the copy that tools and handlers have.
// Prints a line of JSON for each way of executing: what happened, by case.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [address, mine, theirs] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const load = (path) =>
  path.includes("/cjs/") ? require(path) : import(pathToFileURL(path).href);
const own = await load(mine);
const other = await load(theirs);
const { failStep, failTurn, json } = other;
const quiet = { info: () => undefined, warn: () => undefined };
const client = new own.PawlClient({ address, log: quiet });

/** What a tool throws, and what a turn throws, by case. */
const STEPS = {
  plain: () => failStep("NO_ANSWER", "none"),
  final: () => failStep("NO_SUCH_ORDER", "none", { nonRetryable: true }),
  unknown: () => failStep("BANK_SILENT", "none", { unknown: true }),
  paused: () => failStep("LATER", "none", { retryAfterMs: 1 }),
};
const TURNS = {
  again: () => failTurn("NO_QUOTA", "none"),
  over: () => failTurn("NO_QUOTA", "none", { retryable: false }),
  reject: () => failTurn("NOT_MINE", "none", { reject: true }),
};

const caller = (seen) => async (turn) => {
  if (turn.terminal) {
    return { output: "bye" };
  }
  try {
    await turn.step("boom", {});
  } catch (error) {
    seen.known = other.PawlError.is(error) && error instanceof other.PawlError;
    seen.reason = error.reason;
  }
  return { event: "Done", artifacts: { sum: json("a text") } };
};

const thrower = (seen, error) => () => {
  seen.turns = (seen.turns ?? 0) + 1;
  throw error();
};

async function outcome(execute) {
  const seen = { calls: 0 };
  const { status, reason, artifacts } = await execute(seen);
  if (own.RunStatus[status] === "ESCALATED") {
    // The turn is over with its run: whether its handler hears of the step is a race.
    delete seen.known;
    delete seen.reason;
  }
  return { ...seen, status: own.RunStatus[status], ended: reason, sum: artifacts.sum ?? null };
}

async function driven(seen, handler, tools) {
  return client.run("copies", handler, { tools, variables: { n: 1 } });
}

async function worked(seen, handler, tools) {
  const worker = client.worker({ id: "copies" });
  worker.prompt("calc", handler);
  worker.tool("boom", tools.boom);
  const served = worker.serve();
  try {
    const run = await client.start("copies", { variables: { n: 1 } });
    await run.wait({ timeoutMs: 60_000 });
    return await run.result();
  } finally {
    await worker.stop();
    await served;
  }
}

for (const way of [driven, worked]) {
  const told = {};
  for (const [name, error] of Object.entries(STEPS)) {
    told[name] = await outcome((seen) => {
      const boom = () => {
        seen.calls += 1;
        throw error();
      };
      return way(seen, caller(seen), { boom });
    });
  }
  for (const [name, error] of Object.entries(TURNS)) {
    told[name] = await outcome((seen) => way(seen, thrower(seen, error), { boom: () => null }));
  }
  console.log(JSON.stringify(told));
}
client.close();
