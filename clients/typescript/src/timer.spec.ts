/** Waits of any length, and that nothing waits in another way. */

import { readdirSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { sleep } from "./retry.js";
import { deadlineAfter, every, later, MAX_SLICE_MS, type Ticks } from "./timer.js";

const DAY_MS = 86_400_000;

/** A clock that is set by hand, whose timers end as those of Node do. */
class Clock implements Ticks {
  #now = 0;
  readonly #slices = new Map<number, () => void>();

  now = () => this.#now;

  wait = (ms: number, act: () => void) => {
    const due = this.#now + (ms > MAX_SLICE_MS ? 1 : ms);
    this.#slices.set(due, act);
    return due;
  };

  forget = (slice: NodeJS.Timeout | number) => void this.#slices.delete(slice as number);

  get next(): number | undefined {
    return this.#slices.size === 0 ? undefined : Math.min(...this.#slices.keys());
  }

  /** Goes to where the next slice ends. */
  go(): void {
    const due = this.next as number;
    const act = this.#slices.get(due);
    this.#now = due;
    this.#slices.delete(due);
    act?.();
  }
}

describe("a wait", () => {
  test.each([0, 1, MAX_SLICE_MS, MAX_SLICE_MS + 1, 30 * DAY_MS, 365 * DAY_MS])(
    "of %d ms is as long as that",
    (ms) => {
      const ticks = new Clock();
      let passed: number | undefined;
      later(ms, () => (passed = ticks.now()), { ticks });
      while (passed === undefined) {
        ticks.go();
      }
      expect(passed).toBe(ms);
      expect(ticks.next).toBeUndefined();
    },
  );

  test("that is cancelled in its second slice is over", () => {
    const ticks = new Clock();
    const timer = later(40 * DAY_MS, () => expect.fail("it was cancelled"), { ticks });
    ticks.go();
    timer.cancel();
    expect(ticks.next).toBeUndefined();
  });

  test("of 30 days does not end at once, wherever it is made", async () => {
    const ended: string[] = [];
    const over = new AbortController();
    const long = sleep(30 * DAY_MS, over.signal).then(
      () => ended.push("sleep"),
      () => undefined,
    );
    const deadline = deadlineAfter(30 * DAY_MS);
    const repeated = every(30 * DAY_MS, () => ended.push("every"), { idle: true });
    // Node ends what is too long after 1 ms, in the order in which it began.
    for (let left = 5; left > 0; left -= 1) {
      await sleep(5);
    }
    expect(deadline.signal.aborted).toBe(false);
    deadline.cancel();
    repeated.cancel();
    over.abort();
    await long;
    expect(ended).toEqual([]);
  });
});

test("no source waits in another way", () => {
  const sources = new URL(".", import.meta.url);
  const files = readdirSync(sources).filter((name) => name.endsWith(".ts"));
  const raw = files.filter((name) => {
    const text = readFileSync(new URL(name, sources), "utf8");
    const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, "");
    return (
      !/^timer|\.spec\.ts$/.test(name) &&
      /\b(setTimeout|setInterval|AbortSignal\.timeout|timers\/promises)\b/.test(code)
    );
  });
  expect(raw).toEqual([]);
});
