/** A mistake of the program rejects in its hand, at the first turn. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { QUIET, serving, stepsPack, useSidecar } from "./fixture.js";
import {
  type Handler,
  type Handlers,
  type Json,
  PawlError,
  RunStatus,
  type Tools,
  type Turn,
  typedTool,
} from "./index.js";

const shared = useSidecar();
const VARIABLES = { variables: { n: 1 } };
const SUM = { a: 1, b: 2 };
/** Fits the tool's schema, and exceeds the limit of one text. */
const LARGE = { ...SUM, note: "x".repeat(300_000) };

const adds: Handler = async (turn: Turn) =>
  turn.terminal ? {} : { event: "Done", artifacts: { sum: await turn.step("add", SUM) } };

const add = (payload: unknown) => {
  const { a, b } = payload as { a: number; b: number };
  return a + b;
};

/** A handler that returns any value, as a program in JavaScript can. */
const returns = (value: unknown) => (() => value) as unknown as Handler;

const calls = (tool: string, payload: Json = {}): Handler => {
  return async function calling(turn) {
    await turn.step(tool, payload);
    return {};
  };
};

test.each<[string, Handlers, Tools, string, string[]]>([
  ["no function of a tool", adds, {}, "NO_HANDLER", ["handler adds of prompt calc", "none"]],
  ["another name of a tool", adds, { ad: add }, "NO_HANDLER", ["tool add", "functions: ad"]],
  ["a tool of no flag", calls("forbidden"), {}, "TOOL_NOT_ALLOWED", ["--allow-tool forbidden"]],
  ["a tool of no prompt", calls("nowhere"), {}, "TOOL_NOT_LISTED", ["handler calling", "nowhere"]],
  ["a wrong payload", calls("add"), { add }, "SCHEMA", ["handler calling", "payload of tool add"]],
  ["a large payload", calls("add", LARGE), { add }, "PAYLOAD_INVALID", ["handler calling"]],
  ["no handler of a prompt", { ask: adds }, {}, "NO_HANDLER", ["prompt calc", "ask"]],
  ["a text", returns("Done"), {}, "BAD_REPLY", ["a Reply or nothing, not string"]],
  ["a number as event", returns({ event: 3 }), {}, "BAD_REPLY", ["not number"]],
  ["another event", returns({ event: "Nope" }), {}, "UNKNOWN_EVENT", ['"Nope"', "Again"]],
  ["a field", returns({ evnt: "Done" }), {}, "BAD_REPLY", ["evnt", "event"]],
  ["another artifact", returns({ artifacts: { x: 1 } }), {}, "UNDECLARED_ARTIFACT", ["[x]"]],
  ["no JSON", returns({ artifacts: { sum: () => 1 } }), {}, "INVALID_JSON", ["artifacts.sum"]],
  ["a number as messages", returns({ messages: 3 }), {}, "", ["handler (anonymous)"]],
  ["a result that is no JSON", adds, { add: (() => () => 1) as never }, "RESULT_INVALID", ["add"]],
])("%s", async (_, handler, tools, reason, words) => {
  const run = await shared.client.open("steps", VARIABLES);
  const error = await run.drive(handler, { tools }).catch((thrown: unknown) => thrown);
  expect(PawlError.is(error) ? error.reason : "").toBe(reason);
  for (const word of words) {
    expect(String(error)).toContain(word);
  }
  if (reason !== "RESULT_INVALID") {
    expect((await run.info()).turn?.attempt).toBe(1);
  }
});

test("arguments that the function of a tool refuses", async () => {
  const run = await shared.client.open("steps", VARIABLES);
  const picky = typedTool({ input: z.object({ a: z.string() }) }, ({ a }) => a.length);
  const error = await run.drive(calls("add", SUM), { tools: { add: picky } }).catch((e) => e);
  expect(error).toMatchObject({ reason: "INVALID_ARGUMENTS", kind: "step_failed" });
  expect(String(error)).toContain("handler calling of prompt calc: ");
  expect((await run.info()).status).toBe(RunStatus.FAILED);
});

test("a model without a price, where the pack bounds the cost", async () => {
  await shared.client.registerPack(stepsPack("bounded", { max_cost_usd: 1 }));
  const run = await shared.client.open("bounded", VARIABLES);
  const error = await run
    .drive(returns({ event: "Done", usage: { model: "dear", inputTokens: 1 } }))
    .catch((e) => e);
  expect(error).toMatchObject({ reason: "MODEL_UNPRICED" });
  expect(String(error)).toContain("x_pawl.prices");
  expect((await run.info()).turn?.attempt).toBe(1);
});

test("a corrected program continues the run", async () => {
  const run = await shared.client.open("steps", VARIABLES);
  await expect(run.drive(adds)).rejects.toMatchObject({ reason: "NO_HANDLER" });
  const result = await run.drive(adds, { tools: { add } });
  expect([result.status, result.artifacts.sum]).toEqual([RunStatus.COMPLETED, 3]);
});

test.each(["add", "*"])("a tool of a worker: %s", async (named) => {
  const worker = shared.client.worker().tool("add", add as never);
  await using _ = serving(worker);
  const result = await shared.client.run("steps", adds, { ...VARIABLES, workerTools: [named] });
  expect(result.artifacts.sum).toBe(3);
});

test("a worker warns once of a tool that it does not execute", async () => {
  const text: string[] = [];
  const log = { ...QUIET, warn: (line: string) => text.push(line) };
  using client = shared.sidecar.client({ log });
  await using _turns = serving(client.worker().prompt("*", adds));
  await using _tools = serving(client.worker().tool("add", add as never));
  for (let round = 0; round < 2; round += 1) {
    const run = await client.start("steps", VARIABLES);
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
  }
  const warned = text.filter((line) => line.includes("does not execute"));
  expect(warned).toHaveLength(1);
  expect(warned[0]).toMatch(/pack steps: this worker does not execute tool add, .*: none$/);
});

describe("a call without an await", () => {
  const warned: string[] = [];
  const log = { ...QUIET, warn: (line: string) => warned.push(line) };
  const unawaited = (turn: Turn) => {
    if (turn.terminal) {
      return { output: "bye" };
    }
    void turn.step("add", SUM);
    return { event: "Done" };
  };
  const wording =
    /turn \d+ of .*: the handler ended while its call of add was open: is an await missing\?$/;
  const late = async () => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    return 3;
  };
  const rejections: unknown[] = [];
  const rejected = (why: unknown) => rejections.push(why);

  beforeEach(() => {
    warned.length = 0;
    rejections.length = 0;
    process.on("unhandledRejection", rejected);
  });
  afterEach(async () => {
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", rejected);
    expect(rejections).toEqual([]);
  });

  test("is reported by a driven run, which goes on", async () => {
    using client = shared.sidecar.client({ log });
    const { status } = await client.run("steps", unawaited, { ...VARIABLES, tools: { add: late } });
    expect(status).toBe(RunStatus.COMPLETED);
    expect(warned).toEqual([expect.stringMatching(wording)]);
  });

  test("is reported by a worker, which goes on", async () => {
    using client = shared.sidecar.client({ log });
    const worker = client.worker().prompt("*", unawaited).tool("add", late);
    await using _ = serving(worker);
    const run = await client.start("steps", VARIABLES);
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    const named = `worker ${worker.id}: `;
    expect(warned.filter((line) => line.startsWith(named) && wording.test(line))).toHaveLength(1);
  });

  test("is no artifact", async () => {
    using client = shared.sidecar.client({ log });
    const promised = (turn: Turn) => {
      return { event: "Done", artifacts: { sum: turn.step("add", SUM) } };
    };
    const run = client.run("steps", promised as never, { ...VARIABLES, tools: { add: late } });
    await expect(run).rejects.toMatchObject({ reason: "INVALID_JSON" });
    expect(warned).toEqual([expect.stringMatching(wording)]);
  });

  test("that is awaited later is no mistake", async () => {
    using client = shared.sidecar.client({ log });
    const both = async (turn: Turn) => {
      if (turn.terminal) {
        return {};
      }
      const first = turn.step("add", SUM);
      await Promise.all([first, turn.step("add", SUM), ...turn.callEach([{ tool: "add" }])]);
      return { event: "Done" };
    };
    await client.run("steps", both, { ...VARIABLES, tools: { add: late } });
    expect(warned).toEqual([]);
  });
});
