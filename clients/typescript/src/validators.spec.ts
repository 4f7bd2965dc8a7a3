/** Validators of a prompt, which the sidecar enforces for every executor. */

import { expect, test } from "vitest";
import { all, serving, useSidecar } from "./fixture.js";
import { chat } from "./fixture_models.js";
import { chatEvents, Provider } from "./fixture_provider.js";
import { RecordKind, RunStatus, type Turn } from "./index.js";

const shared = useSidecar();
const BANNED = {
  id: "no-foo",
  type: "banned_words",
  message: "Be polite",
  params: { words: ["foo"] },
};
const WHY = "Be polite: the text contains";

/** Registers a pack of one state whose prompt has the validators. */
async function registered(id: string, ...validators: object[]): Promise<string> {
  const pack = {
    id,
    name: id,
    version: "1.0.0",
    template_engine: { version: "v1", syntax: "{{variable}}" },
    prompts: {
      [id]: { id, name: id, version: "1.0.0", system_template: "Be polite.", validators },
    },
    workflow: {
      version: 2,
      entry: "a",
      engine: { x_pawl: { retry: { max_attempts: 3, initial_sec: 0.01 } } },
      states: { a: { prompt_task: id, terminal: true } },
    },
  };
  await shared.client.registerPack(JSON.stringify(pack), { filename: "x.json" });
  return id;
}

async function violations(runId: string): Promise<unknown[]> {
  const run = shared.client.attach(runId);
  const failed = await all(run.records({ kinds: [RecordKind.TURN_FAILED] }));
  return failed.map(({ body }) => (body.case === "turnFailed" ? body.value.violation : undefined));
}

async function checked(runId: string, provider: Provider): Promise<void> {
  const asked = provider.got.map(({ body }) => JSON.stringify(body));
  expect(asked.map((body) => body.includes(WHY))).toEqual([false, true]);
  expect(asked[1]).not.toContain("a foo");
  const place = "answer of step 1, characters 3 to 5";
  expect(await violations(runId)).toMatchObject([{ id: "no-foo", type: "banned_words", place }]);
}

test("a model is asked again", async () => {
  const pack = await registered("validated", BANNED);
  await using provider = await Provider.start(chatEvents("a foo"), chatEvents("bar"));
  const result = await shared.client.run(pack, chat(provider.url));
  expect([result.status, result.text]).toEqual([RunStatus.COMPLETED, "bar"]);
  await checked(result.run.runId, provider);
});

test("a worker asks again", async () => {
  const pack = await registered("validated-worker", BANNED);
  await using provider = await Provider.start(chatEvents("a foo"), chatEvents("bar"));
  const worker = shared.client.worker({ packs: [pack] });
  worker.prompt(pack, chat(provider.url));
  await using _ = serving(worker);
  const run = await shared.client.start(pack);
  expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
  await checked(run.id, provider);
});

test("a handler without a model is held too", async () => {
  const pack = await registered("validated-plain", BANNED);
  const reasons: string[] = [];
  const handler = async (turn: Turn) => ({ output: turn.attempt < 3 ? "a foo" : "bar" });
  const result = await shared.client.run(pack, handler);
  for (const error of result.errors) {
    reasons.push((error as { reason?: string }).reason ?? "");
  }
  expect([result.status, result.text]).toEqual([RunStatus.COMPLETED, "bar"]);
  expect(reasons).toEqual(["VALIDATOR_TRIGGERED", "VALIDATOR_TRIGGERED"]);
  const place = "output, characters 3 to 5";
  expect(await violations(result.run.runId)).toMatchObject([{ place }, { place }]);
});

test("nothing else is said after the last attempt", async () => {
  const pack = await registered("validated-never", { type: "max_length", params: { max: 3 } });
  const result = await shared.client.run(pack, async () => ({ output: "Too long." }));
  expect([result.status, result.reason]).toEqual([RunStatus.ESCALATED, "validator:max_length"]);
});
