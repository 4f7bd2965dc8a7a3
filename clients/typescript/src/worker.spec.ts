/** Workers against a real sidecar. */

import { afterEach, describe, expect, test } from "vitest";
import { all, STEPS, useSidecar } from "./fixture.js";
import {
  type Json,
  type PawlError,
  RecordKind,
  RunStatus,
  type Turn,
  type Worker,
} from "./index.js";
import { Sidecar } from "./testing.js";

const shared = useSidecar();
const working: { worker: Worker; served: Promise<void> }[] = [];

function serve(worker: Worker): Promise<void> {
  const served = worker.serve();
  served.catch(() => undefined);
  working.push({ worker, served });
  return served;
}

afterEach(async () => {
  await Promise.all(working.splice(0).map(({ worker }) => worker.stop()));
});

const start = () => shared.client.start("steps", { variables: { n: 1 } });

/** Adds in its first state and is done. */
async function calc(turn: Turn) {
  if (turn.terminal) {
    return { output: "end" };
  }
  const sum = await turn.step<number>("add", { a: 1, b: 2 });
  return { event: "Done", artifacts: { sum } };
}

describe("a worker", () => {
  test("executes turns and the steps that they ask for", async () => {
    const calls: number[] = [];
    const worker = shared.client.worker({ turns: 2, steps: 2 }).prompt("calc", calc);
    worker.tool("add", (payload: { a: number; b: number }, call) => {
      calls.push(call.step);
      return payload.a + payload.b;
    });
    serve(worker);
    const run = await start();
    const { run: info } = await run.wait();
    expect(info?.status).toBe(RunStatus.COMPLETED);
    expect(await run.artifacts()).toEqual({ sum: 3 });
    expect(calls).toEqual([1]);
    const kinds = [RecordKind.TURN_ASSIGNED, RecordKind.STEP_RESOLVED];
    const records = await all(run.records({ kinds }));
    expect(records.map((record) => record.body.case)).toContain("stepResolved");
    for (const { body } of records) {
      expect(body.case === "turnAssigned" ? body.value.assigned?.worker : worker.id).toBe(
        worker.id,
      );
    }
  });

  test("makes no tool call twice when its turn is repeated", async () => {
    const calls: Json[] = [];
    const seen: unknown[] = [];
    const worker = shared.client.worker({ onError: (error) => seen.push(error) });
    worker
      .tool("add", (payload) => calls.push(payload))
      .prompt("calc", async (turn) => {
        if (turn.terminal) {
          return;
        }
        const sum = await turn.step("add", { a: 1, b: 2 });
        if (turn.attempt === 1) {
          throw new TypeError("boom");
        }
        await turn.setArtifacts({ log: "written" });
        await turn.output("partial");
        return { event: "Done", artifacts: { sum } };
      });
    serve(worker);
    const run = await start();
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(await run.artifacts()).toEqual({ sum: 1, log: "written" });
    expect(calls).toHaveLength(1);
    expect(seen).toMatchObject([{ message: "boom" }]);
  });

  test.each<[string, (turn: Turn) => Promise<unknown>, string]>([
    ["an event", async () => ({ event: "Nope" }), "UNKNOWN_EVENT"],
    ["an artifact", async () => ({ artifacts: { nope: 1 } }), "UNDECLARED_ARTIFACT"],
    ["10 MB", async () => ({ artifacts: { log: "x".repeat(1e7) } }), "MESSAGE_TOO_LARGE"],
    ["no reply", async () => 7, "BAD_REPLY"],
    ["a handler that never returns", () => new Promise(() => undefined), "HANDLER_TIMEOUT"],
    ["a payload", (turn) => turn.step("add", { a: "1" }), "SCHEMA"],
    ["a tool that is not listed", (turn) => turn.step("none"), "TOOL_NOT_LISTED"],
    ["a tool's error", (turn) => turn.step("boom"), "RangeError"],
  ])("is told of what cannot be taken: %s", async (_, bad, word) => {
    const seen: unknown[] = [];
    const worker = shared.client.worker({
      handlerTimeoutMs: 300,
      onError: (error) => seen.push(error),
    });
    worker.tool("boom", () => {
      throw new RangeError("no");
    });
    worker.prompt("calc", async (turn) => {
      if (turn.terminal) {
        return;
      }
      return turn.attempt === 1 ? ((await bad(turn)) as undefined) : { event: "Done" };
    });
    serve(worker);
    const run = await start();
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(seen).toHaveLength(1);
    expect((seen[0] as PawlError).reason).toBe(word);
    const failed = await all(run.records({ kinds: [RecordKind.TURN_FAILED] }));
    expect(failed).toHaveLength(1);
  });

  test("is refused for names that no pack has, and when it is replaced", async () => {
    const unknown = shared.client.worker().prompt("nope", calc);
    await expect(unknown.serve()).rejects.toMatchObject({ reason: "UNKNOWN_PROMPT" });
    const first = shared.client.worker({ workerId: "same" }).prompt("calc", calc);
    const served = serve(first);
    const second = shared.client.worker({ workerId: "same" }).prompt("calc", calc);
    serve(second);
    await expect(Promise.race([served, working[1]?.served])).rejects.toMatchObject({
      reason: "WORKER_REPLACED",
    });
  });

  test("checks schemas of its own", async () => {
    const worker = shared.client.worker().prompt("calc", calc);
    worker.tool("add", () => "three", { result: { type: "number" } });
    serve(worker);
    const run = await start();
    expect((await run.wait()).run?.reason).toBe("turn_failed");
    const answers = await all(run.records({ kinds: [RecordKind.STEP_RESOLVED] }));
    const body = answers[0]?.body;
    expect(body?.case === "stepResolved" && body.value.error?.code).toBe("RESULT_INVALID");
  });
});

describe("a drain", () => {
  const gated = (options = {}) => {
    const gate = new EventTarget();
    const begun = new Promise((resolve) => gate.addEventListener("begun", resolve));
    const opened = new Promise((resolve) => gate.addEventListener("open", resolve));
    const worker = shared.client.worker(options).prompt("calc", async () => {
      gate.dispatchEvent(new Event("begun"));
      await opened;
      return { event: "Done" };
    });
    return { worker, begun, open: () => gate.dispatchEvent(new Event("open")) };
  };

  test("lets what is under way finish, and takes nothing more", async () => {
    const { worker, begun, open } = gated();
    const served = serve(worker);
    const run = await start();
    await begun;
    const stopped = worker.stop();
    open();
    await Promise.all([stopped, served]);
    expect((await run.info()).state).toBe("end");
    expect((await run.info()).status).toBe(RunStatus.RUNNING);
    await run.cancel();
  });

  test("gives back what does not finish, at no attempt", async () => {
    const { worker, begun } = gated({ drainTimeoutMs: 20 });
    const stop = new AbortController();
    const served = worker.serve({ signal: stop.signal });
    const run = await start();
    await begun;
    stop.abort();
    await served;
    const attempts: number[] = [];
    const next = shared.client.worker().prompt("calc", (turn) => {
      attempts.push(turn.attempt);
      return turn.terminal ? {} : { event: "Done" };
    });
    serve(next);
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(attempts).toEqual([1, 1]);
  });
});

test("what is under way is kept over a killed sidecar", async () => {
  const sidecar = await Sidecar.start({ packs: [STEPS], allowTools: ["add"] });
  const client = sidecar.client();
  const calls: Json[] = [];
  let open: () => void = () => undefined;
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  let began: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => {
    began = resolve;
  });
  const worker = client.worker().prompt("calc", async (turn) => {
    if (turn.terminal) {
      return;
    }
    const sum = await turn.step("add", { a: 1, b: 2 });
    began();
    await gate;
    return { event: "Done", artifacts: { sum } };
  });
  worker.tool("add", (payload) => calls.push(payload));
  const served = worker.serve();
  try {
    const run = await client.start("steps", { variables: { n: 1 } });
    await begun;
    await sidecar.restart();
    open();
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(calls).toHaveLength(1);
    await worker.stop();
    await served;
  } finally {
    await worker.stop();
    client.close();
    await sidecar.close();
  }
});
