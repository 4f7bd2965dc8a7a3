/** Typed tools: zod, and any other Standard Schema. */

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { all, STEPS, serving, stepsPack, useSidecar } from "./fixture.js";
import {
  failStep,
  type Json,
  RecordKind,
  type Run,
  RunStatus,
  type StandardSchema,
  type Tool,
  type Turn,
  typedTool,
  type Worker,
} from "./index.js";

const shared = useSidecar({ packs: [STEPS] });
const variables = { n: 1 };

/** The steps pack, whose tools are called with anything. */
async function loosePack(id: string, bounds = {}): Promise<string> {
  const pack = JSON.parse(stepsPack(id, bounds));
  pack.tools.add.parameters = { type: "object", properties: {} };
  await shared.client.registerPack(JSON.stringify(pack));
  return id;
}

async function answers(run: Run) {
  const records = await all(run.records({ kinds: [RecordKind.STEP_RESOLVED] }));
  return records.map(({ body }) => {
    const { result, error } = body.case === "stepResolved" ? body.value : {};
    return error ? { code: error.code, message: error.message } : result;
  });
}

/** What a tool answers to payloads, in a worker. */
async function requests(id: string, give: (worker: Worker) => Worker, payloads: readonly Json[]) {
  const packs = [await loosePack(id)];
  const worker = give(shared.client.worker({ packs, onError: () => undefined }));
  worker.prompt("calc", async (turn) => {
    for (const payload of turn.terminal ? [] : payloads) {
      await turn.step("add", payload).catch(() => undefined);
    }
    return turn.terminal ? {} : { event: "Done" };
  });
  await using _ = serving(worker);
  const run = await shared.client.start(id, { variables });
  expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
  return answers(run);
}

const ORDER = z.strictObject({
  room: z.string(),
  at: z.iso.datetime().transform((text) => new Date(text)),
  guests: z.array(z.object({ name: z.string() })).default([]),
});
const BOOKING = z.object({ id: z.int(), at: z.date().transform((date) => date.toISOString()) });

describe("a typed tool", () => {
  test("is called with what its schema makes of the payload", async () => {
    const report = await requests(
      "fits",
      (worker) =>
        worker.tool("add", { input: ORDER, output: BOOKING }, ({ room, at, guests }, call) => {
          const days: Date = at;
          expect(call.tool).toBe("add");
          return { id: room.length + guests.length, at: new Date(days.getTime() + 86_400_000) };
        }),
      [{ room: "blue", at: "2026-01-01T00:00:00Z" }],
    );
    expect(report).toEqual([{ id: 4, at: "2026-01-02T00:00:00.000Z" }]);
  });

  test("is not called with what does not fit", async () => {
    const calls: unknown[] = [];
    const reported = await requests(
      "misfits",
      (worker) => worker.tool("add", { input: ORDER }, (order) => calls.push(order)),
      [
        { room: "blue" },
        { room: 7, at: "2026-01-01T00:00:00Z", guests: [{ name: "a" }, {}] },
        { room: "blue", at: "2026-01-01T00:00:00Z", floor: 1 },
      ],
    );
    const text = (message: string) => ({
      code: "INVALID_ARGUMENTS",
      message: `arguments of tool add: ${message}`,
    });
    expect(reported).toEqual([
      text("at $.at: Invalid input: expected string, received undefined"),
      text(
        "at $.room: Invalid input: expected string, received number; " +
          "at $.guests[1].name: Invalid input: expected string, received undefined",
      ),
      text('at $: Unrecognized key: "floor"'),
    ]);
    expect(calls).toEqual([]);
  });

  test("whose result does not fit answers with an error", async () => {
    const lie = { id: "four", at: new Date(0) } as unknown as z.input<typeof BOOKING>;
    const received = await requests(
      "lies",
      (worker) => worker.tool("add", { input: z.object({}), output: BOOKING }, () => lie),
      [{}],
    );
    expect(received).toMatchObject([{ code: "RESULT_INVALID" }]);
    expect(received).toMatchObject([
      { message: expect.stringMatching(/^result of tool add: at \$\.id: /) },
    ]);
  });

  test("takes a schema of anybody's, asynchronous too", async () => {
    const even: StandardSchema<unknown, number> = {
      "~standard": {
        version: 1,
        vendor: "own",
        validate: async (value) => {
          const { n } = value as { n: number };
          const path = ["n", { key: 0 }];
          return n % 2 === 0 ? { value: n } : { issues: [{ message: "an even number", path }] };
        },
      },
    };
    const told = await requests(
      "anybody",
      (worker) => worker.tool("add", { input: even }, (n) => n / 2),
      [{ n: 4 }, { n: 5 }],
    );
    const message = "arguments of tool add: at $.n[0]: an even number";
    expect(told).toEqual([2, { code: "INVALID_ARGUMENTS", message }]);
  });

  test("says whether, and when, it is tried again", async () => {
    const retry = { max_attempts: 4, initial_sec: 0.05, jitter: 0 };
    const id = await loosePack("patient", { tools: { add: { retry } } });
    const fresh = (): Tool => {
      const made = [
        failStep("BUSY", "later", { retryAfterMs: 200 }),
        new Error("lost"),
        failStep("GONE", "for ever", { nonRetryable: true }),
      ];
      return typedTool({ input: z.object({ n: z.number() }) }, () => {
        throw made.shift();
      });
    };
    const calc = async (turn: Turn) => {
      for (const payload of turn.terminal ? [] : [{ n: "1" }, { n: 1 }]) {
        await turn.step("add", payload).catch(() => undefined);
      }
      return turn.terminal ? {} : { event: "Done" };
    };
    const worker = shared.client.worker({ packs: [id], onError: () => undefined });
    worker.prompt("calc", calc).tool("add", fresh());
    const run = await shared.client.start(id, { variables });
    {
      await using _ = serving(worker);
      await run.wait();
    }
    const driven = await shared.client.run(id, calc, { tools: { add: fresh() }, variables });
    for (const one of [run, shared.client.attach(driven.run.runId)]) {
      const told = await all(one.records({ kinds: [RecordKind.STEP_RESOLVED] }));
      const failed = told.flatMap(({ at, body }) =>
        body.case === "stepResolved" && body.value.error ? [{ at, ...body.value }] : [],
      );
      expect(failed.map(({ error, next }) => [error?.code, next])).toEqual([
        ["INVALID_ARGUMENTS", 0],
        ["BUSY", 2],
        ["Error", 3],
        ["GONE", 0],
      ]);
      const waiting = failed.map(({ at, notBefore }) => notBefore && +notBefore - Number(at));
      expect(waiting).toEqual([undefined, 200, 100, undefined]);
      // No attempt began before the pause was over.
      expect(Number(failed[2]?.at)).toBeGreaterThanOrEqual(Number(failed[1]?.notBefore));
      expect(Number(failed[3]?.at)).toBeGreaterThanOrEqual(Number(failed[2]?.notBefore));
    }
  });

  test("is one of a run that is driven here as well", async () => {
    const id = await loosePack("driven");
    const half: Tool = typedTool({ input: z.object({ n: z.number() }) }, ({ n }) => n / 2);
    const result = await shared.client.run(
      id,
      async (turn) => {
        if (turn.terminal) {
          return {};
        }
        const wrong = turn.step("add", { n: "4" });
        await expect(wrong).rejects.toMatchObject({ reason: "INVALID_ARGUMENTS" });
        return { event: "Done", artifacts: { sum: await turn.step("add", { n: 4 }) } };
      },
      { tools: { add: half }, variables },
    );
    expect(result).toMatchObject({ status: RunStatus.COMPLETED, artifacts: { sum: 2 } });
  });

  test("that is handed wrong arguments fails its turn for good", async () => {
    const bounds = { retry: { max_attempts: 3, initial_sec: 1 } };
    const packs = [await loosePack("once", bounds)];
    const turns: number[] = [];
    const worker = shared.client.worker({ packs, onError: () => undefined });
    worker
      .tool("add", { input: ORDER }, () => null)
      .prompt("calc", async (turn) => {
        turns.push(turn.attempt);
        await turn.step("add", {});
        return { event: "Done" };
      });
    await using _ = serving(worker);
    const run = await shared.client.start("once", { variables });
    expect((await run.wait()).run?.status).toBe(RunStatus.FAILED);
    expect(turns).toEqual([1]);
  });

  test("has the types of its schemas", () => {
    const worker = shared.client.worker();
    worker.tool("a", { input: ORDER }, ({ room }) => room.length);
    // @ts-expect-error There is no such argument.
    worker.tool("b", { input: ORDER }, ({ rooms }) => rooms);
    // @ts-expect-error It gives another type.
    worker.tool("c", { input: ORDER, output: BOOKING }, () => ({ id: "four", at: new Date() }));
    // @ts-expect-error A Date is no JSON.
    worker.tool("d", { input: ORDER }, ({ at }) => at);
  });
});
