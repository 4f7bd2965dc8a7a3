/** Runs the agents on a real sidecar, with the recorded model. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { RunStatus, textOf } from "pawl-client";
import { Sidecar } from "pawl-client/testing";
import { model } from "./offline.js";

test("the lead asks both agents", async () => {
  await using sidecar = await Sidecar.start({ packs: ["my-agent.pack.yaml"], allowTools: ["*"] });
  using client = sidecar.client();
  const worker = client.worker({ turns: 4 }).prompt("*", model).agent("*", model);
  const serving = worker.run();
  const run = await client.start("my-agent", { input: "Are ratchets good?" });
  const waited = await run.wait();
  assert.equal(waited.run?.status, RunStatus.COMPLETED);
  const text = textOf((await run.result()).output);
  assert.match(text, /turns one way/);
  assert.match(text, /teeth/);
  await worker.stop();
  await serving;
});
