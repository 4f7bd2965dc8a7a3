/** Workers against a real sidecar. */

import { describe, expect, test } from "vitest";
import { AGENTS, all, Gate, STEPS, useSidecar, useWorkers } from "./fixture.js";
import { type Json, RecordKind, RunStatus, type Turn } from "./index.js";
import { Sidecar } from "./testing.js";

const shared = useSidecar({ packs: [STEPS, AGENTS], allowTools: ["add", "boom"] });
const serve = useWorkers();

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

  test("takes by prompt, then by agent, then what nobody else has", async () => {
    const taken: string[][] = [];
    const by = (name: string) => (turn: Turn) => {
      taken.push([name, turn.prompt, turn.agent]);
      const event = taken.length === 1 ? "NextFinding" : "AllTriaged";
      return turn.terminal ? {} : { event: turn.state === "investigate" ? "Done" : event };
    };
    serve(
      shared.client
        .worker({ packs: ["security-review"] })
        .prompt("investigator", by("prompt"))
        .agent("triage", by("agent"))
        .prompt("*", by("any prompt"))
        .agent("*", by("any agent")),
    );
    for (const agent of ["triage", "analyst"]) {
      const run = await shared.client.start("security-review", { agent });
      expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    }
    expect(taken).toEqual([
      ["agent", "triage", "triage"],
      ["prompt", "investigator", "triage"],
      ["agent", "triage", "triage"],
      ["agent", "triage", "triage"],
      ["any prompt", "analyst", "analyst"],
    ]);
  });

  test("takes all agents by one handler", async () => {
    const agents: string[] = [];
    serve(
      shared.client.worker({ packs: ["security-review"] }).agent("*", ({ agent }) => {
        agents.push(agent);
        return {};
      }),
    );
    const run = await shared.client.start("security-review", { agent: "analyst" });
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(agents).toEqual(["analyst"]);
  });

  test("makes the calls of all tools by one handler", async () => {
    const calls: unknown[] = [];
    const worker = shared.client.worker({ packs: ["steps"] }).prompt("*", calc);
    serve(
      worker.tool("*", (payload, { tool, key, attempt }) => {
        calls.push([tool, key, attempt, payload]);
        return 7;
      }),
    );
    const run = await start();
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(calls).toEqual([["add", "1", 1, { a: 1, b: 2 }]]);
    expect(await run.artifacts()).toEqual({ sum: 7 });
  });
});

describe("a drain", () => {
  const gated = (options = {}) => {
    const started = new Gate();
    const gate = new Gate();
    const worker = shared.client.worker(options).prompt("calc", async () => {
      started.open();
      await gate.opened;
      return { event: "Done" };
    });
    return { worker, begun: started.opened, open: gate.open };
  };

  test("lets what is under way finish, and takes nothing more", async () => {
    const { worker, begun: starting, open } = gated();
    const served = serve(worker);
    const run = await start();
    await starting;
    const stopped = worker.stop();
    open();
    await Promise.all([stopped, served]);
    expect((await run.info()).state).toBe("end");
    expect((await run.info()).status).toBe(RunStatus.RUNNING);
    await run.cancel();
  });

  test("gives back what does not finish, at no attempt", async () => {
    const { worker, begun: startedRun } = gated({ drainTimeoutMs: 20 });
    const stop = new AbortController();
    const served = worker.serve({ signal: stop.signal });
    const run = await start();
    await startedRun;
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
  const gate = new Gate();
  const started = new Gate();
  const worker = client.worker().prompt("calc", async (turn) => {
    if (turn.terminal) {
      return;
    }
    const sum = await turn.step("add", { a: 1, b: 2 });
    started.open();
    await gate.opened;
    return { event: "Done", artifacts: { sum } };
  });
  worker.tool("add", (payload) => calls.push(payload));
  const served = worker.serve();
  try {
    const run = await client.start("steps", { variables: { n: 1 } });
    await started.opened;
    await sidecar.restart();
    gate.open();
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
