/**
 * 8.17: nothing that a handler says costs the worker its place: the failure is recorded, and
 * the next piece of work is taken.
 */

import { beforeAll, expect, test } from "vitest";
import { all, stepsPack, useWorkers } from "./fixture.js";
import {
  failTurn,
  type Log,
  type PawlClient,
  PawlError,
  RecordKind,
  type Reply,
  RunStatus,
} from "./index.js";
import { Sidecar } from "./testing.js";

const serve = useWorkers();
const log: string[] = [];
const keep: Log = {
  info: (text) => log.push(text),
  warn: (text, error) =>
    log.push(error instanceof Error ? `${text} ${error.stack}` : `${text} ${typeof error}`),
};
let sidecar: Sidecar;
let client: PawlClient;

beforeAll(async () => {
  sidecar = await Sidecar.start({ allowTools: ["*"] });
  client = sidecar.client({ log: keep });
  const retry = { max_attempts: 1 };
  await client.registerPack(stepsPack("bad-values", { retry }), { filename: "x.json" });
  return async () => {
    client.close();
    await sidecar.close();
  };
});

const odd = <T>(value: unknown) => value as T;
const deep = (levels: number) => {
  let value: unknown = [];
  for (let level = 0; level < levels; level += 1) {
    value = [value];
  }
  return value;
};
const loop: unknown[] = [];
loop.push(loop);
const long = "x".repeat(10_000_000);
const wordless = Object.create(null);
const trap = () => {
  throw new Error("a trap");
};
const hostile = Object.create(Error.prototype, {
  message: { get: trap },
  name: { get: trap },
  stack: { get: trap },
});

const THROWN: Record<string, unknown> = {
  "an int": failTurn(odd(5)),
  bytes: failTurn(odd(new Uint8Array([255])), odd(new Uint8Array([255]))),
  null: failTurn(odd(null), odd(null)),
  objects: failTurn(odd({}), odd({})),
  nothing: failTurn(""),
  "huge text": failTurn(long, long),
  "half a character": failTurn("\ud800", "\ud800"),
  "control characters": failTurn("\0", "\0"),
  "odd flags": failTurn("X", "x", { retryable: odd("yes"), reject: odd({}) }),
  "no error: undefined": undefined,
  "no error: null": null,
  "no error: a symbol": Symbol("s"),
  "no error: wordless": wordless,
  "no error: a function": () => 0,
  hostile,
  "huge words": new Error(long),
  "a name of no text": Object.assign(new Error("x"), { name: 5 }),
  "a reason of no text": new PawlError("handler", "x", { reason: odd(5) }),
};
const REPLIES: Record<string, unknown> = {
  "an int": 5,
  "a list": [],
  "event int": { event: 5 },
  "event bytes": { event: new Uint8Array([255]) },
  "event huge": { event: long },
  "artifacts int": { event: "Done", artifacts: 5 },
  "artifacts loop": { event: "Done", artifacts: { sum: loop } },
  "artifacts deep": { event: "Done", artifacts: { sum: deep(100_000) } },
  "artifacts symbol": { event: "Done", artifacts: { sum: Symbol("no") } },
  "messages int": { event: "Done", messages: 5 },
  "messages null": { event: "Done", messages: [null] },
  "output symbol": { event: "Done", output: Symbol("s") },
  "usage text": { event: "Done", usage: "much" },
  "usage huge": { event: "Done", usage: { inputTokens: 2 ** 80 } },
  "usage half": { event: "Done", usage: { inputTokens: 0.5 } },
  awaiting: { event: "Done", awaiting: "x" },
  unknown: { event: "Done", what: 1 },
};
const RESULTS: Record<string, unknown> = {
  "a symbol": Symbol("s"),
  "a function": () => 1,
  "a loop": loop,
  deep: deep(100_000),
  huge: long,
  "a hostile one": {
    toJSON: () => {
      throw new Error("no");
    },
  },
};

test("bad turns cost no place", async () => {
  let respond: () => unknown = () => undefined;
  serve(
    client
      .worker({ packs: ["bad-values"], handlerTimeoutMs: 0 })
      .prompt("calc", () => respond() as Reply),
  );
  const thrown = Object.entries(THROWN).map(([name, error]) => {
    const raise = () => {
      throw error;
    };
    return [name, raise] as const;
  });
  const text = Object.entries(REPLIES).map(([name, reply]) => [name, () => reply] as const);
  for (const [name, bad] of [...thrown, ...text]) {
    respond = bad;
    const run = await client.start("bad-values", { variables: { n: 1 } });
    const { run: info, timedOut } = await run.wait();
    expect([name, timedOut]).toEqual([name, false]);
    expect([name, info?.status]).not.toEqual([name, RunStatus.RUNNING]);
    const [failed] = await all(run.records({ kinds: [RecordKind.TURN_FAILED] }));
    const code = failed?.body.case === "turnFailed" ? failed.body.value.error?.code : "";
    expect([name, code]).not.toEqual([name, ""]);
  }
});

test("bad tools cost no place", async () => {
  const table = [...Object.entries(THROWN), ...Object.entries(RESULTS)];
  const left = [...table];
  const errors: string[] = [];
  const tools = client.worker({ packs: ["bad-values"], handlerTimeoutMs: 0 });
  tools.tool("add", () => {
    const [name = "", bad] = left.shift() ?? [];
    if (name in THROWN) {
      throw bad;
    }
    return bad as number;
  });
  serve(tools);
  const turns = client.worker({ packs: ["bad-values"] }).prompt("calc", async (turn) => {
    if (turn.terminal) {
      return {};
    }
    for (const index of table.keys()) {
      const request = turn.step("add", { a: 1, b: 2 }, { key: `${index}` });
      await request.catch((error: PawlError) => errors.push(`${error.kind}: ${error.reason}`));
    }
    return { event: "Done" };
  });
  serve(turns);
  const run = await client.start("bad-values", { variables: { n: 1 } });
  expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
  expect(left).toEqual([]);
  expect(errors).toHaveLength(table.length);
  expect(errors.filter((error) => !/^step_failed: .+/.test(error))).toEqual([]);
});

test("where it was thrown is in the log and, bounded, in the failure", async () => {
  log.length = 0;
  const recursing = (levels: number): never => {
    if (levels > 0) {
      recursing(levels - 1);
    }
    throw new TypeError("the innermost");
  };
  const worker = client.worker({ packs: ["bad-values"] });
  worker.tool("add", ({ a }: { a: number }) => {
    throw a ? new RangeError("of the tool") : failTurn("MEANT", "so");
  });
  worker.prompt("calc", async (turn) => {
    for (const a of [0, 1]) {
      const error = await turn.step("add", { a, b: 2 }).catch((caught: Error) => caught);
      // A model may read this text, so it must not contain a stack.
      expect(String(error)).not.toContain(" at ");
    }
    return recursing(500);
  });
  serve(worker);
  const run = await client.start("bad-values", { variables: { n: 1 } });
  expect((await run.wait()).run?.status).toBe(RunStatus.ESCALATED);
  const kinds = [RecordKind.TURN_FAILED, RecordKind.STEP_RESOLVED];
  const faults = (await all(run.records({ kinds }))).map(({ body }) =>
    body.case === "turnFailed" || body.case === "stepResolved" ? body.value.error : undefined,
  );
  expect(faults[0]).toMatchObject({ code: "MEANT", message: "so", trace: "" });
  expect(faults[1]?.trace).toMatch(/^RangeError: of the tool\n +at /);
  expect(faults[2]?.trace).toMatch(/^TypeError: the innermost\n +at recursing /);
  expect(Buffer.byteLength(faults[2]?.trace ?? "")).toBeLessThanOrEqual(8192);
  expect(log.join("\n")).toContain("TypeError: the innermost\n    at recursing");
  expect(log.join("\n")).toContain("RangeError: of the tool\n    at ");
});

/** Returns the end of a run whose handler works longer than two leases, and its failed turns. */
async function underLease(seconds: number) {
  const pack = `short-lease-${seconds}`;
  const bounds = { retry: { max_attempts: 1 }, lease_sec: seconds };
  await client.registerPack(stepsPack(pack, bounds), { filename: "x.json" });
  const worker = client.worker({ packs: [pack] }).prompt("calc", async (turn) => {
    if (!turn.terminal) {
      await new Promise((resolve) => setTimeout(resolve, 2500 * seconds));
    }
    return turn.terminal ? {} : { event: "Done" };
  });
  serve(worker);
  const run = await client.start(pack, { variables: { n: 1 } });
  const status = (await run.wait({ waitMs: 120_000 })).run?.status;
  return { status, failed: (await all(run.records({ kinds: [RecordKind.TURN_FAILED] }))).length };
}

// On a slow machine the test is repeated with a longer lease. Each lease is far shorter than the
// pause between the heartbeats of a worker without turns.
test("a short lease is kept for as long as its handler takes", async () => {
  const kept = { status: RunStatus.COMPLETED, failed: 0 };
  let got = await underLease(1);
  for (const seconds of [2, 4]) {
    if (got.status !== kept.status || got.failed > 0) {
      got = await underLease(seconds);
    }
  }
  expect(got).toEqual(kept);
});
