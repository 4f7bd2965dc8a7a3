/** Answers that are values, by schemas of zod and by JSON Schemas, against a real sidecar. */

import { beforeAll, describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { stepsPack, useSidecar } from "./fixture.js";
import { MODELS } from "./fixture_models.js";
import { type Calling, chatEvents, Provider } from "./fixture_provider.js";
import { type Json, RunStatus, textOf } from "./index.js";
import { modelHandler } from "./models.js";

const shared = useSidecar();
const variables = { n: 1 };
const model = MODELS["chat completions"];

interface Tree {
  readonly name: string;
  readonly branches: readonly Tree[];
}

const Order = z.object({ flower: z.string(), count: z.int().min(1) });
const Tree: z.ZodType<Tree> = z.object({
  name: z.string(),
  get branches() {
    return z.array(Tree);
  },
});

const leaving = (output: object | undefined): Calling => {
  return { id: "l1", name: "leave_state", given: { event: "Done", output } };
};

beforeAll(async () => {
  const pack = JSON.parse(stepsPack("two-prompts", {}));
  pack.prompts.bye = { id: "bye", name: "Bye", version: "1.0.0", system_template: "Bye." };
  pack.workflow.states.end.prompt_task = "bye";
  await shared.client.registerPack(JSON.stringify(pack), { filename: "t.json" });
});

describe("a value of zod", () => {
  test("comes with the way out, and is asked for again until it fits", async () => {
    const order = { flower: "tulip", count: 3 };
    await using provider = await Provider.start(
      chatEvents("", leaving(undefined)),
      chatEvents("", leaving({ ...order, count: 0 })),
      chatEvents("", leaving(order)),
      chatEvents('```json\n{"flower": "rose", "count": 7}\n```'),
    );
    const handler = modelHandler(model(provider.url), { output: Order });
    const result = await shared.client.run("steps", handler, { variables });
    expect([result.status, result.errors]).toEqual([RunStatus.COMPLETED, []]);
    const value = handler.value(result);
    expectTypeOf(value).toEqualTypeOf<{ flower: string; count: number }>();
    expect(value).toEqual({ flower: "rose", count: 7 });
    const [first, second, third, last] = provider.got.map(({ body }) => JSON.stringify(body));
    expect(first).toContain('"required":["event","output"]');
    expect(second).toContain("output: it is required");
    expect(third).toContain("output: the answer: at $.count");
    expect(last).toMatch(/"response_format":\{"type":"json_schema".*"additionalProperties":false/);
  });

  test("may be of one prompt alone", async () => {
    const answers = [chatEvents("", leaving(undefined)), chatEvents('{"flower":"a","count":1}')];
    await using provider = await Provider.start(...answers);
    const handler = modelHandler(model(provider.url), { output: { bye: Order } });
    const result = await shared.client.run("two-prompts", handler, { variables });
    expectTypeOf(handler.value(result)).toEqualTypeOf<{ flower: string; count: number }>();
    expect(handler.value(result)).toEqual({ flower: "a", count: 1 });
    expect(JSON.stringify(provider.got[0]?.body)).not.toContain('"output"');
  });

  test("may hold itself, also as a property of the way out", async () => {
    const tree = { name: "a", branches: [{ name: "b", branches: [] }] };
    const wrong = { name: "a", branches: [{ name: 1, branches: [] }] };
    await using provider = await Provider.start(
      chatEvents("", leaving(wrong)),
      chatEvents("", leaving(tree)),
      chatEvents(JSON.stringify(tree)),
    );
    const handler = modelHandler(model(provider.url), { output: Tree });
    const result = await shared.client.run("steps", handler, { variables });
    expect(handler.value(result)).toEqual(tree);
    expect(JSON.stringify(provider.got[0]?.body)).toMatch(/"\$ref":"#\/properties\/output[^"]*"/);
    expect(JSON.stringify(provider.got[1]?.body)).toContain("branches[0].name");
  });
});

test("a JSON Schema makes JSON, to the last digit", async () => {
  const output = { type: "object", properties: { id: { type: "integer" } }, required: ["id"] };
  const text = '{"id": 9007199254740993}';
  await using provider = await Provider.start(chatEvents("", leaving({ id: 1 })), chatEvents(text));
  const handler = modelHandler(model(provider.url), { output });
  const result = await shared.client.run("steps", handler, { variables });
  expectTypeOf(handler.value(result)).toEqualTypeOf<Json>();
  expect(handler.value(result)).toEqual({ id: 9007199254740993n });
});

test("what never fits ends with the rounds, and no value is there", async () => {
  const pack = stepsPack("misfit", { retry: { max_attempts: 1 } });
  await shared.client.registerPack(pack, { filename: "m.json" });
  await using provider = await Provider.start(chatEvents("", leaving({ count: "many" })));
  const handler = modelHandler(model(provider.url), { output: Order, maxRounds: 2 });
  const result = await shared.client.run("misfit", handler, { variables });
  expect(result.errors).toMatchObject([{ reason: "MAX_ROUNDS" }]);
  expect(provider.got).toHaveLength(3);
  expect(() => handler.value(result)).toThrow("no JSON part");
});

test("a model stands for its handler", async () => {
  await using provider = await Provider.start(
    chatEvents("", { id: "l1", name: "leave_state", given: { event: "Done" } }),
    chatEvents("Bye."),
  );
  const result = await shared.client.run("steps", model(provider.url), { variables });
  expect([result.status, textOf(result.output)]).toEqual([RunStatus.COMPLETED, "Bye."]);
});
