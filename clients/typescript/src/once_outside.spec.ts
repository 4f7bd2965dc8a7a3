/** 8.5: what a tool changes elsewhere is keyed by its call, not by the attempt of it. */

import { beforeAll, describe, expect, test } from "vitest";
import { Gate, stepsPack, useSidecar, useWorkers } from "./fixture.js";
import { failTurn, RunStatus, type ToolCall, type Turn } from "./index.js";

const shared = useSidecar();
const serve = useWorkers();

beforeAll(async () => {
  const tools = { add: { attempts: 3, timeout_sec: 1, on_unknown: "retry" } };
  await shared.client.registerPack(stepsPack("once-outside", { tools }), { filename: "x.json" });
});

/** The world outside: it takes each key once. */
class Ledger {
  readonly effects = new Set<string>();
  calls = 0;

  charge({ idempotencyKey }: ToolCall): void {
    this.calls += 1;
    this.effects.add(idempotencyKey);
  }
}

async function calc(turn: Turn) {
  if (turn.terminal) {
    return {};
  }
  await turn.step("add", { a: 1, b: 2 });
  return { event: "Done" };
}

const faults = {
  fails: () => {
    throw failTurn("LOST", "no answer");
  },
  "answers too late": () => new Gate().opened.then(() => 0),
};

describe.each(Object.entries(faults))("a tool that %s after its effect", (_, fault) => {
  test("has one effect in a worker", async () => {
    const ledger = new Ledger();
    const worker = shared.client.worker({ packs: ["once-outside"], steps: 2, onError: () => {} });
    worker.prompt("calc", calc).tool("add", (_payload, call) => {
      ledger.charge(call);
      return call.attempt === 1 ? fault() : 3;
    });
    serve(worker);
    const run = await shared.client.start("once-outside", { variables: { n: 1 } });
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(ledger.calls).toBe(2);
    expect([...ledger.effects]).toEqual([`${run.id}/1`]);
  });
});

test("a tool of a run that is driven here has one effect", async () => {
  const ledger = new Ledger();
  const add = (_payload: unknown, call: ToolCall) => {
    ledger.charge(call);
    return call.attempt < 3 ? faults.fails() : 3;
  };
  const options = { tools: { add }, variables: { n: 1 } };
  const result = await shared.client.run("once-outside", calc, options);
  expect(result.status).toBe(RunStatus.COMPLETED);
  expect(ledger.calls).toBe(3);
  expect([...ledger.effects]).toEqual([`${result.run.runId}/1`]);
});
