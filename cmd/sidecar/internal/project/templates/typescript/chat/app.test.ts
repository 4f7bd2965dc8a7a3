/** Talks with the agent on a real sidecar, with the recorded model. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { RunStatus, textOf, WaitUntil } from "pawl-client";
import { Sidecar } from "pawl-client/testing";
import { model } from "./offline.js";

test("a conversation", async () => {
  await using sidecar = await Sidecar.start({ packs: ["my-agent.pack.yaml"] });
  using client = sidecar.client();
  const worker = client.worker().prompt("*", model);
  const serving = worker.run();
  const run = await client.start("my-agent", { input: "Hello" });
  const waited = await run.wait({ until: WaitUntil.WAITING });
  assert.equal(waited.run?.status, RunStatus.WAITING);
  await run.sendInput("Bye");
  await run.wait();
  assert.equal(textOf((await run.result()).output), "Goodbye!");
  await worker.stop();
  await serving;
});
