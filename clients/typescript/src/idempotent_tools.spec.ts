/** The idempotency key of a tool call is the same in each attempt, so its effect happens once. */

import { expect, test } from "vitest";
import { Gate, stepsPack, useSidecar, useWorkers } from "./fixture.js";
import { failStep, failTurn, type Json, RunStatus, type ToolCall, type Turn } from "./index.js";

const shared = useSidecar();
const serve = useWorkers();

/** Time limit of an attempt in seconds, for tests in which no attempt is late. */
const PATIENT = 60;

/** Registers a pack whose tool has three attempts of `seconds` each. Returns the pack's name. */
async function thrice(seconds: number): Promise<string> {
  const name = `once-outside-${seconds}`;
  const tools = { add: { attempts: 3, timeout_sec: seconds, on_unknown: "retry" } };
  await shared.client.registerPack(stepsPack(name, { tools }), { filename: "x.json" });
  return name;
}

/** A service that the tool changes: it has the effect of each key only once. */
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

/** Runs a worker whose tool has a fault in its first attempt, and returns the end of the run. */
async function worked(fault: () => unknown, seconds: number) {
  const pack = await thrice(seconds);
  const ledger = new Ledger();
  const worker = shared.client.worker({ packs: [pack], steps: 2, onError: () => {} });
  worker.prompt("calc", calc).tool("add", (_payload, call) => {
    ledger.charge(call);
    return call.attempt === 1 ? (fault() as number) : 3;
  });
  serve(worker);
  const run = await shared.client.start(pack, { variables: { n: 1 } });
  const status = (await run.wait({ waitMs: 120_000 })).run?.status;
  expect([...ledger.effects]).toEqual([`${run.id}/1`]);
  return { status, calls: ledger.calls };
}

test("a tool that fails after its effect has one effect in a worker", async () => {
  const got = await worked(faults.fails, PATIENT);
  expect(got).toEqual({ status: RunStatus.COMPLETED, calls: 2 });
});

// The first attempt answers after its time limit. If a slow machine makes the next attempt late,
// too, the test is repeated with a longer limit.
test("a tool that answers too late after its effect has one effect in a worker", async () => {
  const once = { status: RunStatus.COMPLETED, calls: 2 };
  let got = await worked(faults["answers too late"], 1);
  for (const seconds of [4, 16]) {
    if (got.status !== once.status || got.calls !== once.calls) {
      got = await worked(faults["answers too late"], seconds);
    }
  }
  expect(got).toEqual(once);
});

test("a tool of a run that is driven here has one effect", async () => {
  const ledger = new Ledger();
  const add = (_payload: unknown, call: ToolCall) => {
    ledger.charge(call);
    return call.attempt < 3 ? faults.fails() : 3;
  };
  const options = { tools: { add }, variables: { n: 1 } };
  const result = await shared.client.run(await thrice(PATIENT), calc, options);
  expect(result.status).toBe(RunStatus.COMPLETED);
  expect(ledger.calls).toBe(3);
  expect([...ledger.effects]).toEqual([`${result.run.runId}/1`]);
});

test.each([
  ["too large", () => "x".repeat(10_000_000), "MESSAGE_TOO_LARGE"],
  ["no JSON", () => Symbol("no") as unknown as string, "RESULT_INVALID"],
])("a result that is %s is of a call that happened", async (_what, result, reason) => {
  // If the sidecar counted the call as failed, it would repeat the call, and then the turn.
  const repeated = { tools: { add: { attempts: 3 } }, retry: { max_attempts: 3 } };
  await shared.client.registerPack(stepsPack("refused-result", repeated), { filename: "x.json" });
  const ledger = new Ledger();
  const add = (_payload: Json, call: ToolCall) => {
    ledger.charge(call);
    return result();
  };
  const seen: unknown[] = [];
  const handler = async (turn: Turn) => {
    if (turn.terminal) {
      return {};
    }
    await turn.step("add", { a: 1, b: 2 }).catch((error) => seen.push(error.reason));
    return { event: "Done" };
  };
  const done = await shared.client.run("refused-result", handler, {
    variables: { n: 1 },
    tools: { add },
  });
  expect(done.status).toBe(RunStatus.COMPLETED);
  expect(seen).toEqual([reason]);
  expect(ledger.calls).toBe(1);
});

test.each([true, false])("a tool says whether it may have happened: %s", async (unknown) => {
  const name = `may-have-happened-${unknown}`;
  const tools = { add: { attempts: 3, on_unknown: "return" } };
  await shared.client.registerPack(stepsPack(name, { tools }), { filename: "x.json" });
  const ledger = new Ledger();
  const worker = shared.client.worker({ packs: [name], onError: () => {} });
  worker
    .prompt("calc", async (turn) => {
      if (turn.terminal) {
        return {};
      }
      await expect(turn.step("add", { a: 1, b: 2 })).rejects.toMatchObject({
        message: expect.stringContaining("no answer"),
        unknown,
      });
      return { event: "Done" };
    })
    .tool("add", (_payload, call) => {
      ledger.charge(call);
      throw failStep("BANK_TIMEOUT", "no answer", { unknown });
    });
  serve(worker);
  const run = await shared.client.start(name, { variables: { n: 1 } });
  expect((await run.wait({ waitMs: 120_000 })).run?.status).toBe(RunStatus.COMPLETED);
  expect(ledger.calls).toBe(unknown ? 1 : 3);
});
