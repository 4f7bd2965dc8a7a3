/** Turns that are given back while they wait for steps. */

import { describe, expect, test } from "vitest";
import { all, Gate, useSidecar, useWorkers } from "./fixture.js";
import { PawlError, RecordKind, type Run, RunStatus, type Turn } from "./index.js";

const shared = useSidecar();
const serve = useWorkers();
const start = () => shared.client.start("steps", { variables: { n: 1 } });

/** Starts a worker for the tool `add`, which answers after the returned gate was opened. */
function adding(): Gate {
  const gate = new Gate();
  const worker = shared.client.worker({ steps: 4 });
  worker.tool("add", async ({ a, b }: { a: number; b: number }) => {
    await gate.opened;
    return a + b;
  });
  serve(worker);
  return gate;
}

/** The first record of a kind, as soon as there is one. */
async function first(run: Run, kind: RecordKind) {
  for await (const record of run.transitions({ kinds: [kind] })) {
    return record;
  }
  throw new Error(`the run ended without a record ${RecordKind[kind]}`);
}

/** Returns a handler that calls `add` in its first state, and notes how each execution ended. */
function asking(notes: unknown[], ended: Gate) {
  return async (turn: Turn) => {
    if (turn.terminal) {
      return;
    }
    try {
      const sum = await turn.step<number>("add", { a: 1, b: 2 });
      notes.push(turn.attempt, sum);
      return { event: "Done", artifacts: { sum } };
    } catch (error) {
      notes.push(PawlError.is(error) && [error.kind, error.reason]);
      notes.push(turn.signal.reason === error);
      ended.open();
      throw error;
    }
  };
}

describe("a turn that only waits for a step", () => {
  test("makes place for another, and is executed again with the answer", async () => {
    const answer = adding();
    const notes: unknown[] = [];
    const report: unknown[] = [];
    const ended = new Gate();
    const worker = shared.client.worker({
      suspendAfterMs: 20,
      onError: (error) => report.push(error),
    });
    serve(worker.prompt("calc", asking(notes, ended)));
    const run = await start();
    const suspended = await first(run, RecordKind.TURN_SUSPENDED);
    expect(suspended.body).toMatchObject({ value: { attempt: 1, pending: [1] } });
    await ended.opened;
    expect(notes.splice(0)).toEqual([["suspended", "TURN_SUSPENDED"], true]);
    expect((await run.info()).status).toBe(RunStatus.WAITING);
    answer.open();
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(notes).toEqual([1, 3]);
    expect(report).toEqual([]);
    const request = await all(run.records({ kinds: [RecordKind.STEP_REQUESTED] }));
    expect(request).toHaveLength(1);
  });

  test("leaves its worker free for another run", async () => {
    const answer = adding();
    const ended = new Gate();
    serve(shared.client.worker({ suspendAfterMs: 20 }).prompt("calc", asking([], ended)));
    const waiting = await start();
    await first(waiting, RecordKind.TURN_SUSPENDED);
    // The worker takes one turn at a time.
    const other = await start();
    await first(other, RecordKind.STEP_REQUESTED);
    answer.open();
    for (const run of [waiting, other]) {
      expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    }
  });

  test("is kept where suspending is off, as by default", async () => {
    const answer = adding();
    const notes: unknown[] = [];
    serve(shared.client.worker().prompt("calc", asking(notes, new Gate())));
    const run = await start();
    await first(run, RecordKind.STEP_REQUESTED);
    answer.open();
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(notes).toEqual([1, 3]);
    expect(await all(run.records({ kinds: [RecordKind.TURN_SUSPENDED] }))).toEqual([]);
  });

  test("may be suspended by a handler that goes on, which counts for nothing", async () => {
    const answer = adding();
    const reported: unknown[] = [];
    const worker = shared.client.worker({
      suspendAfterMs: 20,
      onError: (error) => reported.push(error),
    });
    let executions = 0;
    worker.prompt("calc", async (turn) => {
      if (turn.terminal) {
        return;
      }
      executions += 1;
      const sum = await turn.step<number>("add", { a: 1, b: 2 }).catch(() => -1);
      return { event: "Done", artifacts: { sum } };
    });
    serve(worker);
    const run = await start();
    await first(run, RecordKind.TURN_SUSPENDED);
    answer.open();
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect([executions, await run.artifacts()]).toEqual([2, { sum: 3 }]);
    expect(reported).toEqual([]);
  });
});
