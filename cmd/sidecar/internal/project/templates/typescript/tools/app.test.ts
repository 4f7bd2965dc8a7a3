/** Runs the agent on a real sidecar, with the recorded model. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { RunStatus, textOf } from "pawl-client";
import { Sidecar } from "pawl-client/testing";
import { tools } from "./app.js";
import { model } from "./offline.js";

/** Returns what the agent answers. */
async function ask(question: string): Promise<string> {
  await using sidecar = await Sidecar.start({ packs: ["my-agent.pack.yaml"], allowTools: ["*"] });
  using client = sidecar.client();
  const result = await client.run("my-agent", model, { tools, input: question });
  assert.equal(result.status, RunStatus.COMPLETED);
  return textOf(result.output);
}

test("an order that exists", async () => {
  assert.match(await ask("Where is order 17?"), /shipped on Monday/);
});

test("an order that does not exist", async () => {
  assert.match(await ask("Where is order 99?"), /cannot find/);
});
