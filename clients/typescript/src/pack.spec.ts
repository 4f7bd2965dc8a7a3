/** Packs that are built in code. The marks of errors are checked by tsc. */

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { useSidecar } from "./fixture.js";
import { type Handler, type Handlers, PawlError, RunStatus } from "./index.js";
import { append, definePack, type PackDefinition, type TypesOf, tool } from "./pack.js";

const shared = useSidecar({ packs: [], allowTools: ["*"] });

const parameters = {
  type: "object",
  properties: { order: { type: "string" }, amount: { type: "number" } },
  required: ["order"],
} as const;

/** The pack of testdata/built.pack.json, which the tests of Python build as well. */
const shop = definePack("built", {
  name: "Shop",
  description: "Sells.",
  tools: {
    charge: tool(
      {
        description: "Charges an order.",
        parameters,
        options: { attempts: 1, on_unknown: "escalate" },
      },
      ({ order, amount = 1 }) => `charged ${order}: ${amount}`,
    ),
  },
  states: {
    sell: {
      prompt: "Charge what {{customer}} orders. Last: {{artifacts.receipt}}",
      tools: ["charge"],
      artifacts: {
        receipt: "text/plain",
        log: append(),
        page: "text/html",
        facts: z.object({ total: z.number() }),
      },
      variables: ["customer"],
      max_visits: 2,
      on_max_visits: "sold",
      on: { Again: "sell", Sold: "sold" },
    },
    sold: { prompt: "Thank the customer.", terminal: true },
  },
  limits: { max_tool_calls: 3, max_cost_usd: 0.5 },
});

test("a pack runs", async () => {
  expect(await shop.check()).toEqual([]);
  const directory = mkdtempSync(join(tmpdir(), "pack-"));
  await shop.write(join(directory, "shop.pack.json"));
  await shared.client.registerPack(readFileSync(join(directory, "shop.pack.json")));
  rmSync(directory, { recursive: true });
  // The file and the text are one pack: registering it again changes nothing.
  await shared.client.registerPack(shop.json());
  const handlers: Handlers<TypesOf<typeof shop>> = {
    sell: async (turn) => {
      const receipt = String(await turn.step("charge", { order: "17" }));
      return { event: "Again", artifacts: { receipt, log: { visit: turn.visit } } };
    },
    sold: () => ({ output: "Thank you." }),
  };
  const variables = { customer: "Ada" };
  const result = await shared.client.run(shop.id, handlers, { variables, tools: shop.tools });
  expect(result.status).toBe(RunStatus.COMPLETED);
  expect(result.artifacts.receipt).toBe("charged 17: 1");
  expect(result.artifacts.log).toEqual([{ visit: 1 }, { visit: 2 }]);
});

test("both languages build the same document", () => {
  const golden = new URL("../../../testdata/built.pack.json", import.meta.url);
  expect(shop.document()).toEqual(JSON.parse(readFileSync(golden, "utf8")));
  expect(JSON.parse(shop.json())).toEqual(shop.document());
});

test("a tool with a schema of zod checks its arguments", async () => {
  const adder = definePack("adder", {
    tools: {
      add: tool(
        { description: "Adds.", input: z.object({ a: z.number(), b: z.number().default(1) }) },
        ({ a, b }) => a + b,
      ),
    },
    states: {
      count: {
        prompt: "Count.",
        tools: ["add"],
        artifacts: { sum: "application/json" },
        on: { Done: "end" },
      },
      end: { prompt: "End.", terminal: true },
    },
  });
  await shared.client.registerPack(adder.json());
  const count = await shared.client.run(
    adder.id,
    async (turn) => {
      return turn.terminal
        ? {}
        : { event: "Done", artifacts: { sum: await turn.step("add", { a: 2 }) } };
    },
    { tools: adder.tools },
  );
  expect(count.artifacts.sum).toBe(3);
});

/** Never called: tsc checks it. */
async function typed() {
  const { client } = shared;
  const start = { tools: shop.tools, variables: { customer: "Ada" } };
  await client.run(shop.id, () => ({ event: "Sold" }), start);
  await client.run(shop.id, { sell: () => ({ event: "Again" }), "*": () => ({}) }, start);
  // @ts-expect-error the event
  await client.run(shop.id, () => ({ event: "Slod" }), start);
  // @ts-expect-error a state without events
  await client.run(shop.id, { sold: () => ({ event: "Sold" }) }, start);
  // @ts-expect-error the state
  await client.run(shop.id, { sel: () => ({ event: "Sold" }) }, start);
  // @ts-expect-error the artifact
  await client.run(shop.id, () => ({ event: "Sold", artifacts: { receit: "x" } }), start);
  // @ts-expect-error the type of the artifact
  await client.run(shop.id, () => ({ event: "Sold", artifacts: { receipt: 1 } }), start);
  // @ts-expect-error a member of the artifact
  await client.run(shop.id, () => ({ artifacts: { facts: { totl: 1 } } }), start);
  // @ts-expect-error the tool
  await client.run(shop.id, async (turn) => void (await turn.step("chrge", { order: "x" })), start);
  // @ts-expect-error the arguments
  await client.run(shop.id, async (turn) => void (await turn.step("charge", { id: "x" })), start);
  // @ts-expect-error the variable
  await client.start(shop.id, { variables: { custmer: "Ada" } });
  const run = await client.start(shop.id, { variables: { customer: "Ada" } });
  await run.emit("Sold");
  // @ts-expect-error the event
  await run.emit("Slod");
  type Sell = TypesOf<typeof shop>["prompts"]["sell"];
  const sell: Handler<Sell> = () => ({ event: "Sold" });
  // @ts-expect-error the event
  const slel: Handler<Sell> = () => ({ event: "Slod" });
  client
    .worker({ packs: [shop.id] })
    .prompt("sell", sell)
    .prompt("sell", slel);
  expectTypeOf((await run.artifacts()).receipt).toEqualTypeOf<string | undefined>();
  expectTypeOf((await run.artifacts()).facts).toEqualTypeOf<{ total: number } | undefined>();

  const end = { prompt: "x", terminal: true } as const;
  // @ts-expect-error a state that the event leads to
  definePack("p", { states: { a: { prompt: "x", on: { Next: "b" } }, end } });
  // @ts-expect-error a state that the limit leads to
  definePack("p", { states: { a: { prompt: "x", max_visits: 1, on_max_visits: "b" }, end } });
  // @ts-expect-error a tool
  definePack("p", { states: { a: { prompt: "x", tools: ["add"] }, end } });
  // @ts-expect-error a field
  definePack("p", { states: { a: { promt: "x" }, end } });
  // @ts-expect-error the type of an argument
  tool({ description: "x", parameters }, ({ order }) => order * 2);
}

void typed;

const done = { prompt: "x", terminal: true };
const a = (state: object) => ({ states: { a: { prompt: "x", ...state } } });

test.each<[string, object, RegExp]>([
  ["Shop", { states: { done } }, /^pack "Shop": an id is lower-case letters/],
  ["p", { states: {} }, /^pack p: it has no state; add one to states/],
  ["p", { states: { "A b": done } }, /^state "A b": a name is lower-case letters/],
  ["p", a({ max_visits: -1 }), /^state a: max_visits must be positive .* not -1/],
  ["p", a({ on_max_visits: "a" }), /^state a: max_visits must be positive .* not undefined/],
  ["p", a({ orchestration: "outer" }), /^state a: orchestration must be .*, not "outer"/],
  ["p", a({ tools: ["add"] }), /^state a: "add" is no tool of the pack; add it to tools/],
  [
    "p",
    a({ artifacts: { note: "text" } }),
    /^state a: the artifact note has the media type "text"/,
  ],
  ["p", a({ terminal: true, on: { Next: "a" } }), /^state a: a terminal state has no events/],
  ["p", a({ on: { "Go on": "a" } }), /^event "Go on": a name is letters/],
  ["p", a({ on: { Next: "b" } }), /^state a: the event "Next" leads to "b", which is no state: a/],
  ["p", a({ max_visits: 2, on_max_visits: "b" }), /^state a: on_max_visits leads to "b"/],
  ["p", { states: { done }, tools: { "1": {} } }, /^tool "1": a name is letters/],
])("a mistake is a RangeError where it is made: %s %j", (id, definition, message) => {
  const make = () => definePack(id, definition as PackDefinition as never);
  expect(make).toThrow(RangeError);
  expect(make).toThrow(message);
});

test("a tool needs a description and a schema", () => {
  expect(() => tool({ description: "", parameters }, () => 1)).toThrow("a description is missing");
  expect(() => tool({ description: "x" } as never, () => 1)).toThrow("input or parameters");
});

test("a limit without a JSON form is refused with its place", () => {
  const pack = definePack("p", { states: { done }, limits: { max_cost_usd: Number.NaN } });
  expect(() => pack.json()).toThrow("pack p.workflow.engine.x_pawl.max_cost_usd: NaN is no JSON");
});

test("check reports every finding", async () => {
  const pack = definePack("loop", {
    states: { a: { prompt: "Go on.", on: { Next: "a" } } },
    limits: { max_cost_usd: -1, max_tool_calls: 0 },
  });
  const error = await pack.check().catch((thrown: unknown) => thrown);
  expect(PawlError.is(error, "PACK_INVALID")).toBe(true);
  expect(String(error)).toMatch(/pack loop:[\s\S]*max_tool_calls[\s\S]*max_cost_usd/);
  await expect(pack.check({ binary: "/nowhere" })).rejects.toMatchObject({ kind: "sidecar" });
});
