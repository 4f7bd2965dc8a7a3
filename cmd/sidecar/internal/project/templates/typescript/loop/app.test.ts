/** Runs the agent on a real sidecar, with the recorded model. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { RunStatus, type Reply, type Turn, textOf } from "pawl-client";
import { Sidecar } from "pawl-client/testing";
import { model } from "./offline.js";

/** Returns what the agent publishes. */
async function run(handler: (turn: Turn) => Promise<Reply>): Promise<string> {
  await using sidecar = await Sidecar.start({ packs: ["my-agent.pack.yaml"] });
  using client = sidecar.client();
  const result = await client.run("my-agent", handler, { input: "Write about ratchets." });
  assert.equal(result.status, RunStatus.COMPLETED);
  return textOf(result.output);
}

test("the second draft is good", async () => {
  assert.match(await run(model), /draft 2/);
});

test("a critic that is never content", async () => {
  const strict = async (turn: Turn): Promise<Reply> =>
    turn.state === "criticize" ? { event: "Weak", artifacts: { review: "Again." } } : model(turn);
  assert.match(await run(strict), /draft 3/);
});
