/** When a handler counts as idle. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { IdleDetector } from "./idle_detector.js";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function watched(afterMs: number) {
  const state = { waits: true, calls: 0 };
  const idle = () => {
    state.calls += 1;
  };
  return { state, idleness: new IdleDetector(afterMs, () => state.waits, idle) };
}

test("a wait without any other work is noticed, once for each change", () => {
  const { state, idleness } = watched(100);
  idleness.changed();
  vi.advanceTimersByTime(99);
  idleness.changed();
  vi.advanceTimersByTime(99);
  expect(state.calls).toBe(0);
  vi.advanceTimersByTime(1000);
  expect(state.calls).toBe(1);
  idleness.changed();
  vi.advanceTimersByTime(100);
  expect(state.calls).toBe(2);
});

test("work that is under way, an end, and no wait are no idleness", async () => {
  const { state, idleness } = watched(100);
  idleness.changed();
  let done: () => void = () => undefined;
  const work = idleness.during(() => new Promise<void>((resolve) => (done = resolve)));
  idleness.changed();
  vi.advanceTimersByTime(1000);
  state.waits = false;
  done();
  await work;
  vi.advanceTimersByTime(1000);
  state.waits = true;
  idleness.changed();
  idleness.end();
  vi.advanceTimersByTime(1000);
  expect(state.calls).toBe(0);
});

test("without a time it is never noticed", () => {
  const { state, idleness } = watched(0);
  idleness.changed();
  vi.advanceTimersByTime(1e9);
  expect(state.calls).toBe(0);
});
