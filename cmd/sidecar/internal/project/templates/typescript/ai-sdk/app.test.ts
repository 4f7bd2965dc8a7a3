/** Runs the agent on a real sidecar, with the recorded model. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { type PawlClient, RecordKind, StepDecision } from "pawl-client";
import { Sidecar } from "pawl-client/testing";
import { ask } from "./app.js";
import { recorded } from "./offline.js";

test("an answer", async () => {
  await using sidecar = await Sidecar.start({ allowTools: ["*"] });
  using client = sidecar.client();
  const answer = await ask(client, recorded(), "Where is order 17?", "question-1");
  assert.match(answer, /shipped on Monday/);
});

test("the same id asks the model once", async () => {
  await using sidecar = await Sidecar.start({ allowTools: ["*"] });
  using client = sidecar.client();
  const model = recorded();
  const first = await ask(client, model, "Where is order 18?", "question-2");
  const asked = model.doGenerateCalls.length;
  assert.equal(await ask(client, model, "Where is order 18?", "question-2"), first);
  assert.equal(model.doGenerateCalls.length, asked);
});

test("a person approves a large refund", async () => {
  await using sidecar = await Sidecar.start({ allowTools: ["*"] });
  using client = sidecar.client();
  const answer = ask(client, recorded(), "Refund order 17: 150", "refund-1");
  // The answer ends first if it fails.
  await Promise.race([approveFirst(client), answer]);
  assert.match(await answer, /150.00 for order 17/);
});

/** Plays the person: waits until a call is held, and approves it. */
async function approveFirst(client: PawlClient): Promise<void> {
  const kinds = [RecordKind.STEP_REQUESTED];
  for await (const _ of client.transitions(undefined, { kinds })) {
    for await (const { runId, call } of client.listApprovals()) {
      if (call?.approval) {
        const run = client.attach(runId);
        await run.decideStep(call.step, call.approval.digest, StepDecision.APPROVE);
        return;
      }
    }
  }
}
