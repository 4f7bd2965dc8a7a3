/**
 * Whoever executes turns by a model, and the sidecar, are killed again and again, while the
 * model words every answer anew: each effect is there once, and no answer is asked for twice.
 *
 * PAWL_CRASH_RUNS says how many runs; PAWL_CRASH_SEED, which faults there are.
 */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { all, QUIET } from "./fixture.js";
import { type Asked, ORDERS, randomOf, SHOP, Shop } from "./fixture_shop.js";
import { PawlError, RecordKind, type Run, RunStatus } from "./index.js";
import { Sidecar } from "./testing.js";

const RUNS = Number(process.env.PAWL_CRASH_RUNS ?? 3);
const SEED = Number(process.env.PAWL_CRASH_SEED ?? 1);
const root = fileURLToPath(new URL("..", import.meta.url));
let built = "";

beforeAll(() => {
  // A process that is killed runs what is compiled, not what the test runner makes of it.
  built = mkdtempSync(`${root}node_modules/.crash-`);
  const flags = ["--project", "tsconfig.crash.json", "--outDir", built];
  const done = spawnSync("node_modules/.bin/tsc", flags, { cwd: root, stdio: "inherit" });
  expect(done.status).toBe(0);
  // The compiler takes no JavaScript along.
  copyFileSync(`${root}src/package_dir.cjs`, `${built}/package_dir.cjs`);
});

afterAll(() => rmSync(built, { recursive: true, force: true }));

/** Keeps a process running until it ends well, however often it is killed. */
class Mortal {
  killed = 0;
  #child: ChildProcess | undefined;
  #over = false;

  constructor(readonly args: () => readonly string[]) {}

  /** Resolves once it ended by itself. */
  async live(): Promise<void> {
    while (!this.#over) {
      const stdio = ["ignore", "inherit", "inherit"] as const;
      const program = `${built}/fixture_crash.js`;
      const child = spawn(process.execPath, [program, ...this.args()], { stdio: [...stdio] });
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
    this.kill();
  }
}

/** Kills after every few things that happened; of many runs as much happens to each. */
function killer(strike: (nth: number) => void): () => void {
  const random = randomOf(SEED + 7);
  const share = Math.ceil(RUNS / 6);
  const pause = () => share * (12 + Math.floor(random() * 14));
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
  test("has each effect once, and asks for no answer twice", { timeout: 900_000 }, async () => {
    await using sidecar = await Sidecar.start({ allowTools: ["charge"] });
    using client = sidecar.client({ log: QUIET, retryForMs: 60_000 });
    await client.registerPack(SHOP, { filename: "shop.json" });
    let restarting = Promise.resolve();
    let restarts = 0;
    const happened = killer((nth) => {
      mortal.kill();
      if (nth % 4 === 0) {
        restarts += 1;
        restarting = restarting.then(() => sidecar.restart());
      }
    });
    await using shop = await Shop.start(SEED, happened);
    const names = Array.from({ length: RUNS }, (_, at) => `${role}-${at + 1}`);
    const asked = role === "app" ? names : [];
    const mortal = new Mortal(() => [role, sidecar.address, shop.url, ...asked]);
    const living = mortal.live();
    const runs = await Promise.all(names.map((name) => started(role, name)));
    await Promise.all(runs.map((run) => ended(run))).finally(() => mortal.end());
    await living;
    await restarting;
    for (const [at, run] of runs.entries()) {
      await check(shop, run, names[at] ?? "");
    }
    expect(mortal.killed).toBeGreaterThan(0);
    const figures = { kills: mortal.killed, restarts, asked: shop.asked.length, runs: RUNS };
    console.info(role, { ...figures, charges: shop.calls });

    async function started(by: string, requestId: string): Promise<Run> {
      const start = { requestId, variables: { name: requestId } };
      return by === "app" ? client.open("shop", start) : client.start("shop", start);
    }
  });
});

async function ended(run: Run): Promise<void> {
  for (;;) {
    // The sidecar is killed more often than a wait may last.
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
      const said = answer.parts.map(({ content }) => content.value);
      answers.push([said.join(""), ...answer.calls.map((call) => call.arguments)].join("|"));
    }
  }
  expect(answers).toHaveLength(ORDERS + 1);
  // An attempt of a call is one request at most; what is asked again is another attempt.
  const counts = countBy(shop.asked.filter((one) => one.name === name));
  for (const [nth, attempt] of [...attempts.values()].entries()) {
    expect(counts[nth] ?? 0, `requests of round ${nth + 1} of ${name}`).toBeLessThanOrEqual(
      attempt,
    );
  }
  // Whatever was asked later was shown what is recorded, and nothing else.
  for (const { state, words } of shop.asked.filter((one) => one.name === name)) {
    const shown = state === "serve" ? words : words.slice(0, ORDERS);
    expect(answers.slice(0, shown.length)).toEqual(shown);
  }
}

function countBy(asked: readonly Asked[]): number[] {
  const counts: number[] = [];
  for (const { state, round } of asked) {
    const nth = state === "serve" ? round - 1 : ORDERS;
    counts[nth] = (counts[nth] ?? 0) + 1;
  }
  return counts;
}
