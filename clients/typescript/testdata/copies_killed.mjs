// A program that has this package twice, and whose sidecar is killed under its tool. Arguments: the
// sidecar's address, the index of the copy that drives and works, the index of the copy that the tool
// has, the way of executing, and the file of the tool's ledger.
// The tool writes a line to its ledger, says `charged`, and throws once the program is told `go on`. At the
// end the program prints how the run ended.
import { appendFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [address, mine, theirs, way, ledger] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const load = (path) =>
  path.includes("/cjs/") ? require(path) : import(pathToFileURL(path).href);
const own = await load(mine);
const other = await load(theirs);
const quiet = { info: () => undefined, warn: () => undefined };
const client = new own.PawlClient({ address, log: quiet });
const input = createInterface(process.stdin);
const told = new Promise((resolve) => input.once("line", resolve));

async function boom(_payload, call) {
  appendFileSync(ledger, `${call.attempt}\n`);
  console.log("charged");
  await told;
  console.log("thrown");
  throw other.failStep("BANK_SILENT", "the bank took it and did not answer", { unknown: true });
}

async function handler(turn) {
  if (turn.terminal) {
    return { output: "bye" };
  }
  await turn.step("boom", {});
  return { event: "Done", artifacts: { sum: other.json("a text") } };
}

async function worked() {
  const worker = client.worker({ id: "copies" }).prompt("calc", handler).tool("boom", boom);
  const served = worker.serve();
  const run = await client.start("copies", { variables: { n: 1 } });
  await run.wait({ timeoutMs: 60_000 });
  const result = await run.result();
  await worker.stop();
  await served;
  return result;
}

const driven = () => client.run("copies", handler, { tools: { boom }, variables: { n: 1 } });
const { status, reason } = await (way === "worked" ? worked() : driven());
console.log(`${own.RunStatus[status]} ${reason}`);
client.close();
input.close();
