/** What came out of a run is the same however one asks. */

import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { all, STEPS, serving, stepsPack, useSidecar } from "./fixture.js";
import {
  json,
  type Part,
  PawlError,
  type RunResult,
  RunStatus,
  type Turn,
  type Usage,
} from "./index.js";
import { newId } from "./retry.js";

const shared = useSidecar({ packs: [STEPS] });
const variables = { n: 1 };
const SUM = { sum: { of: [1, 2] } };

function handler(turn: Turn) {
  return turn.terminal
    ? { output: ["all", json({ z: 1.5e30, a: "<é>" })] }
    : { event: "Done", artifacts: SUM, output: "not the last" };
}

function contents(output: readonly Part[]) {
  return output.map(({ content }) => content);
}

function check(result: RunResult) {
  expect(result).toMatchObject({
    status: RunStatus.COMPLETED,
    reason: "completed",
    artifacts: SUM,
    errors: [],
  });
  expect(contents(result.output)).toEqual([
    { case: "text", value: "all" },
    { case: "json", value: '{"z":1.5e+30,"a":"<é>"}' },
  ]);
}

describe("the result of a run", () => {
  test("after run", async () => {
    const result = await shared.client.run("steps", handler, { variables });
    check(result);
    expect(await shared.client.attach(result.run.runId).result()).toEqual(result);
  });

  test("after a repeated requestId, where nothing is executed", async () => {
    const requestId = newId();
    const first = await shared.client.run("steps", handler, { variables, requestId });
    check(first);
    const never = () => {
      throw new Error("it has ended");
    };
    expect(await shared.client.run("steps", never, { variables, requestId })).toEqual(first);
    const opened = await shared.client.open("steps", { variables, requestId });
    expect(await opened.result()).toEqual(first);
  });

  test("after start and wait", async () => {
    await shared.client.registerPack(stepsPack("result", {}), { filename: "x.json" });
    const requestId = newId();
    const worker = shared.client.worker({ packs: ["result"] }).prompt("*", handler);
    await using _ = serving(worker);
    const run = await shared.client.start("result", { variables, requestId });
    expect((await run.wait()).timedOut).toBe(false);
    const result = await run.result();
    check(result);
    const retry = await shared.client.start("result", { variables, requestId });
    expect(await retry.result()).toEqual(result);
  });

  test("whose last turn was put away by somebody else", async () => {
    const run = await shared.client.open("steps", { variables });
    const driven = await run.drive(async (turn) => {
      if (turn.terminal) {
        await shared.client.attach(run.id).cancel();
        return { output: "too late" };
      }
      return handler(turn);
    });
    expect(driven).toMatchObject({ status: RunStatus.CANCELLED, errors: [{ kind: "state" }] });
    expect(contents(driven.output)).toEqual([{ case: "text", value: "not the last" }]);
    expect(await run.result()).toEqual({ ...driven, errors: [] });
  });

  test("that has none yet, or never will", async () => {
    const run = await shared.client.open("steps", { variables });
    expect(await run.result()).toMatchObject({ status: RunStatus.RUNNING, output: [] });
    await run.cancel();
    const ended = { status: RunStatus.CANCELLED, output: [], artifacts: {} };
    expect(await run.result()).toMatchObject(ended);
  });

  test("whose last turn is far from its end", async () => {
    const run = await shared.client.open("steps", { variables });
    const { turn } = await run.turn();
    if (turn) {
      await run.complete(turn, { event: "Again", output: "early" });
    }
    const turnToken = (await run.turn()).turn?.token ?? "";
    for (let n = 0; n < 50; n += 1) {
      await run.setArtifacts({ log: `${n}\n` }, { turnToken });
    }
    expect((await run.info()).seq).toBeGreaterThan(50);
    const { output } = await run.result();
    expect(contents(output)).toEqual([{ case: "text", value: "early" }]);
  });

  test("that nobody knows", async () => {
    const unknown = shared.client.attach("01J9Z3NDEKTSV4RRFFQ69G5FAV").result();
    const error = await unknown.catch((caught) => caught);
    expect(PawlError.is(error, "RUN_NOT_FOUND")).toBe(true);
  });
});

describe("the values of a result", () => {
  const Sum = z.object({ of: z.array(z.number()) });

  test("its text, the name of its status, and an artifact by a schema", async () => {
    const result = await shared.client.run("steps", handler, { variables });
    expect([result.text, result.statusName]).toEqual(["all", "COMPLETED"]);
    const sum: { of: number[] } = await result.artifact("sum", Sum);
    expect(sum).toEqual({ of: [1, 2] });
    expect(await result.artifact("sum", (value) => JSON.stringify(value))).toBe('{"of":[1,2]}');
    await expect(result.artifact("sum", z.string())).rejects.toMatchObject({
      reason: "ARTIFACT_INVALID",
      message: expect.stringMatching(/^artifact sum: at \$: /),
    });
    await expect(result.artifact("sum", () => fail("no sum"))).rejects.toMatchObject({
      reason: "ARTIFACT_INVALID",
      message: "artifact sum: no sum",
    });
    await expect(result.artifact("log", Sum)).rejects.toThrow("was not written; written: sum");
  });

  test.each<[string, Usage | undefined, number | undefined]>([
    ["of no model", undefined, 0],
    ["without a price", { inputTokens: 10, outputTokens: 5 }, undefined],
    ["with a price", { inputTokens: 10, outputTokens: 5, costMicroUsd: 2500 }, 0.0025],
  ])("its cost %s", async (_, usage, cost) => {
    const priced = (turn: Turn) =>
      turn.terminal ? {} : { event: "Done", ...(usage && { usage }) };
    expect((await shared.client.run("steps", priced, { variables })).costUsd).toBe(cost);
  });

  test("by JSON.stringify", async () => {
    const large = { n: 2n ** 60n };
    const big = (turn: Turn) =>
      turn.terminal ? {} : { event: "Done", artifacts: { sum: { of: large } } };
    let failing = true;
    const once = (turn: Turn) => {
      if (failing) {
        failing = false;
        fail("once");
      }
      return big(turn);
    };
    const result = await shared.client.run("steps", once, { variables });
    const { run, ...read } = JSON.parse(JSON.stringify(result));
    expect(read).toEqual({
      status: "COMPLETED",
      reason: "completed",
      artifacts: { sum: { of: { n: String(2n ** 60n) } } },
      output: [],
      text: "",
      costUsd: 0,
      errors: [{ name: "Error", message: "once" }],
    });
    expect(run).toMatchObject({ runId: result.run.runId, status: "COMPLETED" });
    const events = await all(shared.client.attach(result.run.runId).events());
    const written = events.find(({ kind }) => kind === "artifact");
    expect(written).toMatchObject({ value: { of: large } });
    expect(JSON.parse(JSON.stringify(written))).toMatchObject({
      kind: "artifact",
      value: { of: { n: String(2n ** 60n) } },
    });
  });

  test("by console.log, and its run", async () => {
    const run = await shared.client.open("steps", { variables });
    const result = await run.drive(handler);
    const shown = inspect(result);
    expect(shown).toMatch(/^RunResult \{/);
    for (const words of ["status: 'COMPLETED'", "text: 'all'", "costUsd: 0", run.id]) {
      expect(shown).toContain(words);
    }
    expect(shown).toContain("{ text: 'all' }");
    expect(JSON.parse(JSON.stringify(result)).output[0]).toEqual({ text: "all" });
    expect(inspect({ run })).toBe(`{ run: Run { id: '${run.id}' } }`);
    expect(JSON.stringify(run)).toBe(`{"id":"${run.id}"}`);
  });
});

function fail(text: string): never {
  throw new Error(text);
}

test.each(["shop.pack.yaml", "packs/my shop.json", "C:\\packs\\SHOP.YML"])(
  "a path as text is no pack: %s",
  async (path) => {
    const expected = { reason: "PACK_INVALID", message: expect.stringContaining("readFile(") };
    await expect((async () => shared.client.registerPack(path))()).rejects.toMatchObject(expected);
    await expect((async () => shared.client.validatePack(path))()).rejects.toMatchObject(expected);
  },
);
