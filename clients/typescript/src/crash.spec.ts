/**
 * Workers, apps and the sidecar are killed again and again, while the model uses other words in
 * each answer. Each effect exists once, and no recorded answer is requested twice.
 *
 * PAWL_CRASH_RUNS sets how many runs there are; PAWL_CRASH_SEED, which faults there are.
 */

import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { all, QUIET } from "./fixture.js";
import { Program } from "./fixture_program.js";
import { type ChatRequest, ORDERS, randomOf, SHOP, Shop } from "./fixture_shop.js";
import { PawlError, RecordKind, type Run, RunStatus } from "./index.js";
import { Sidecar } from "./testing.js";

const RUNS = Number(process.env.PAWL_CRASH_RUNS ?? 3);
const SEED = Number(process.env.PAWL_CRASH_SEED ?? 1);
let program: Program;

beforeAll(() => {
  program = new Program();
});

afterAll(() => program.remove());

/** A process that is started again after each kill, until it ends by itself. */
class Mortal {
  killed = 0;
  #child: ChildProcess | undefined;
  #over = false;

  constructor(readonly args: readonly string[]) {}

  /** Resolves when the process has ended by itself. */
  async live(): Promise<void> {
    while (!this.#over) {
      const child = program.spawn(...this.args);
      this.#child = child;
      const [code, signal] = await once(child, "exit");
      if (signal === null) {
        expect(code).toBe(0);
        return;
      }
    }
  }

  kill(): void {
    this.killed += this.#child?.kill("SIGKILL") ? 1 : 0;
  }

  end(): void {
    this.#over = true;
    this.#child?.kill("SIGKILL");
  }
}

/** By kind of process: the number of active runs, and a factor of the events between kills. */
const PACES = { worker: { wave: 6, share: 1 }, app: { wave: 2, share: 0.9 } };

/**
 * Returns a function that counts events and calls `strike` after a random number of them. The
 * number is higher than the number of events that a restarted process repeats.
 */
function killer(share: number, strike: (nth: number) => void): () => void {
  const random = randomOf(SEED + 7);
  const pause = () => Math.ceil(share * (12 + random() * 14));
  let left = pause();
  let nth = 0;
  return () => {
    left -= 1;
    if (left === 0) {
      left = pause();
      nth += 1;
      strike(nth);
    }
  };
}

describe.each(["worker", "app"] as const)("a %s that is killed", (role) => {
  const timeout = 900_000 + RUNS * 30_000;
  test("has each effect once, and asks for no answer twice", { timeout }, async () => {
    await using sidecar = await Sidecar.start({ allowTools: ["charge"] });
    using client = sidecar.client({ log: QUIET, retryForMs: 60_000 });
    const registered = await client.registerPack(SHOP, { filename: "shop.json" });
    expect(registered.diagnostics).toEqual([]);
    let restarting = Promise.resolve();
    let restarts = 0;
    let mortal: Mortal | undefined;
    const { wave, share } = PACES[role];
    const happened = killer(share, (nth) => {
      mortal?.kill();
      if (nth % 4 === 0) {
        restarts += 1;
        restarting = restarting.then(() => sidecar.restart());
      }
    });
    await using shop = await Shop.start(SEED, happened);
    let kills = 0;
    for (let at = 0; at < RUNS; at += wave) {
      const count = Math.min(wave, RUNS - at);
      const names = Array.from({ length: count }, (_, nth) => `${role}-${at + nth + 1}`);
      const request = role === "app" ? names : [];
      const living = new Mortal([role, sidecar.address, shop.url, ...request]);
      mortal = living;
      const over = living.live();
      const runs = await Promise.all(names.map((name) => started(role, name)));
      await Promise.all(runs.map((run) => ended(run))).finally(() => living.end());
      await over;
      await restarting;
      kills += living.killed;
      for (const [nth, run] of runs.entries()) {
        await check(shop, run, names[nth] ?? "");
      }
    }
    expect(kills).toBeGreaterThan(0);
    const figures = { kills, restarts, asked: shop.requests.length, runs: RUNS };
    console.info(role, { ...figures, charges: shop.calls });

    async function started(by: string, requestId: string): Promise<Run> {
      const start = { requestId, variables: { name: requestId } };
      return by === "app" ? client.open("shop", start) : client.start("shop", start);
    }
  });
});

async function ended(run: Run): Promise<void> {
  for (;;) {
    // Each wait is short, because the sidecar is killed often and then loses the wait.
    const waited = run.wait({ waitMs: 1000 }).catch((error: unknown) => {
      if (PawlError.is(error) && ["deadline", "unavailable"].includes(error.kind)) {
        return { run: undefined };
      }
      throw error;
    });
    const { run: info } = await waited;
    if (info && info.status !== RunStatus.RUNNING && info.status !== RunStatus.WAITING) {
      return;
    }
  }
}

async function check(shop: Shop, run: Run, name: string): Promise<void> {
  const info = await run.info();
  expect([name, info.status, info.toolCalls]).toEqual([name, RunStatus.COMPLETED, ORDERS]);
  expect(shop.charged.get(run.id)?.size).toBe(ORDERS);
  const records = await all(run.records({ kinds: [RecordKind.STEP_RESOLVED] }));
  const attempts = new Map<number, number>();
  const answers: string[] = [];
  for (const { body } of records) {
    if (body.case === "stepResolved" && body.value.answer) {
      const { step, attempt, answer } = body.value;
      attempts.set(step, attempt);
      const text = answer.parts.map(({ content }) => content.value);
      answers.push([text.join(""), ...answer.calls.map((call) => call.arguments)].join("|"));
    }
  }
  expect(answers).toHaveLength(ORDERS + 1);
  // Each attempt of a model call makes at most one request. A repeated request is another attempt.
  const counts = countBy(shop.requests.filter((one) => one.name === name));
  for (const [nth, attempt] of [...attempts.values()].entries()) {
    expect(counts[nth] ?? 0, `requests of round ${nth + 1} of ${name}`).toBeLessThanOrEqual(
      attempt,
    );
  }
  // Each later request contained what was recorded before it, and nothing else.
  for (const { state, words } of shop.requests.filter((one) => one.name === name)) {
    const shown = state === "serve" ? words : words.slice(0, ORDERS);
    expect(answers.slice(0, shown.length)).toEqual(shown);
  }
}

function countBy(request: readonly ChatRequest[]): number[] {
  const counts: number[] = [];
  for (const { state, round } of request) {
    const nth = state === "serve" ? round - 1 : ORDERS;
    counts[nth] = (counts[nth] ?? 0) + 1;
  }
  return counts;
}
