/** Answers of models that a handler rejects, against a real sidecar. */

import { expect, test } from "vitest";
import { all, stepsPack, useSidecar } from "./fixture.js";
import { chat } from "./fixture_models.js";
import { chatEvents, Provider } from "./fixture_provider.js";
import { failTurn, RecordKind, RunStatus, type Turn } from "./index.js";

const shared = useSidecar();
const WHY = "SUM_WRONG: Count again.";
const EXIT = { id: "l1", name: "leave_state", given: { event: "Done", artifacts: { sum: 12 } } };
const ADD = { id: "a1", name: "add", given: { a: 5, b: 1 } };
const variables = { n: 1 };

/** A handler that rejects what the model says in the first attempts. */
function rejecting(url: string, attempts: number, error = failTurn("SUM_WRONG", "Count again.")) {
  const handler = chat(url);
  return async (turn: Turn) => {
    const reply = await handler(turn);
    if (turn.state === "calc" && turn.attempt <= attempts) {
      throw error;
    }
    return reply;
  };
}

const report = ({ got }: Provider) => got.map(({ body }) => JSON.stringify(body).includes(WHY));

test("a rejected answer is asked anew with the reason, and tools before it are called once", async () => {
  const answers = [chatEvents("", ADD), chatEvents("", EXIT), chatEvents("", EXIT)];
  await using provider = await Provider.start(...answers, chatEvents("Bye."));
  let calls = 0;
  const add = () => {
    calls += 1;
    return 6;
  };
  const handler = rejecting(provider.url, 1);
  const result = await shared.client.run("steps", handler, { variables, tools: { add } });
  expect([result.status, calls]).toEqual([RunStatus.COMPLETED, 1]);
  expect(report(provider)).toEqual([false, false, true, false]);
  const run = shared.client.attach(result.run.runId);
  const [failed] = await all(run.records({ kinds: [RecordKind.TURN_FAILED] }));
  expect(failed?.body).toMatchObject({ case: "turnFailed", value: { rejectedStep: 3 } });
});

test("a model is asked as often as the turn has attempts", async () => {
  const pack = stepsPack("rejected-always", { retry: { max_attempts: 3 } });
  await shared.client.registerPack(pack, { filename: "x.json" });
  await using provider = await Provider.start(chatEvents("", EXIT));
  const handler = rejecting(provider.url, 9);
  const result = await shared.client.run("rejected-always", handler, { variables });
  expect(result.status).toBe(RunStatus.ESCALATED);
  expect(report(provider)).toEqual([false, true, true]);
});

test("an answer stays where the program failed", async () => {
  await using provider = await Provider.start(chatEvents("", EXIT), chatEvents("Bye."));
  const handler = rejecting(provider.url, 1, new TypeError("the network") as never);
  const result = await shared.client.run("steps", handler, { variables });
  expect([result.status, provider.got.length]).toEqual([RunStatus.COMPLETED, 2]);
});
