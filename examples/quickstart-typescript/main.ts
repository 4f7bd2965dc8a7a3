// Starts the self-correcting pack, runs its turns here, and prints the trace.
import { readFileSync } from "node:fs";
import { PawlClient, type Turn } from "pawl-client";
import { Sidecar } from "pawl-client/testing";

const pack = process.argv[2] ?? "../../testdata/packs/rfc0009-3-self-correcting.json";

/** Fails once, then reads its own error in the prompt and gets it right. */
function work(turn: Turn) {
  if (turn.terminal) {
    return { output: `done in state ${turn.state}` };
  }
  if (turn.visit === 1) {
    return { event: "Error", artifacts: { error_summary: "E1: no such file" } };
  }
  return { event: turn.systemPrompt.includes("E1") ? "Success" : "Error" };
}

const sidecar = await Sidecar.start();
const client = new PawlClient({ address: sidecar.address });
await client.registerPack(readFileSync(pack));
const result = await client.run("self-correcting", work, { input: "Rename the file." });
for await (const { seq, body } of client.attach(result.run.runId).transitions()) {
  if (body.case === "transition") {
    console.log(seq, body.value.event || "start", "->", body.value.toState, "visit", body.value.visit);
  }
}
console.log(result.statusName, result.artifacts);
client.close();
await sidecar.close();
