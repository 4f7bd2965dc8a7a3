/** Runs the agent on a real sidecar, with the recorded model. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { RunStatus, StepDecision, textOf } from "pawl-client";
import { Sidecar } from "pawl-client/testing";
import { tools } from "./app.js";
import { model } from "./offline.js";

const cases = [
  { amount: 50, decision: undefined, answer: /50.00 for order 17/ },
  { amount: 150, decision: StepDecision.APPROVE, answer: /150.00 for order 17/ },
  { amount: 150, decision: StepDecision.DENY, answer: /declined/ },
];

for (const { amount, decision, answer } of cases) {
  test(`a refund of ${amount}, decision ${decision ?? "not needed"}`, async () => {
    await using sidecar = await Sidecar.start({ packs: ["my-agent.pack.yaml"], allowTools: ["*"] });
    using client = sidecar.client();
    const held: string[] = [];
    const result = await client.run("my-agent", model, {
      tools,
      input: `Refund order 17: ${amount}`,
      onOutput: async (event) => {
        if (event.kind === "wait" && event.on === "approval" && decision !== undefined) {
          held.push(event.tool);
          await client.attach(event.runId).decideStep(event.step, event.digest, decision);
        }
      },
    });
    assert.deepEqual(held, decision === undefined ? [] : ["refund"]);
    assert.equal(result.status, RunStatus.COMPLETED);
    assert.match(textOf(result.output), answer);
  });
}
