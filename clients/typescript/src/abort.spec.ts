/** AbortState: an operation ends at most once, and its signal is made when it is first read. */

import { describe, expect, test } from "vitest";
import { AbortState } from "./abort.js";

describe("an ending", () => {
  test("aborts the signal that was asked for, with the first reason", () => {
    const ending = new AbortState();
    const { signal } = ending;
    expect([ending.ended, ending.reason, signal.aborted]).toEqual([false, undefined, false]);
    ending.end(() => "first");
    ending.end(() => "second");
    expect([ending.ended, ending.reason, signal.aborted]).toEqual([true, "first", true]);
    expect(signal.reason).toBe("first");
    expect(ending.signal).toBe(signal);
  });

  test("tells those who ask for the signal afterwards", () => {
    const ending = new AbortState();
    ending.end(() => "over");
    expect([ending.signal.aborted, ending.signal.reason]).toEqual([true, "over"]);
  });

  test("makes no reason that nobody asks for, and only one", async () => {
    const ending = new AbortState();
    let made = 0;
    expect(await ending.unlessAborted(Promise.resolve("done"))).toBe("done");
    ending.end(() => {
      made += 1;
      return { made };
    });
    expect(made).toBe(0);
    expect(ending.reason).toBe(ending.reason);
    expect(made).toBe(1);
  });

  test("rejects what waits, and what waits later", async () => {
    const ending = new AbortState();
    const never = new Promise<void>(() => undefined);
    const waiting = ending.unlessAborted(never);
    ending.end(() => "over");
    await expect(waiting).rejects.toBe("over");
    await expect(ending.unlessAborted(never)).rejects.toBe("over");
  });

  test("passes on how what it waits for ends", async () => {
    const failed = Promise.reject(new RangeError("no"));
    await expect(new AbortState().unlessAborted(failed)).rejects.toThrow("no");
  });
});
