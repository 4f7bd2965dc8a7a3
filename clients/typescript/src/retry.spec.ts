/** Calls that are repeated. */

import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { repeatable } from "./error_advice.js";
import { errorOf } from "./errors.js";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { attempt, sleep } from "./retry.js";

function overloaded(reason: string, waiting = false) {
  return new ConnectError("no", Code.ResourceExhausted, undefined, [
    { desc: ErrorInfoSchema, value: { reason, domain: "pawl.dev" } },
    ...(waiting ? [{ desc: RetryInfoSchema, value: { retryDelay: { nanos: 1 } } }] : []),
  ]);
}

describe("a call", () => {
  const retryWindow = { timeoutMs: 5_000, retryForMs: 2_000, renewsToken: false };

  test("is repeated while that may help, and no longer", async () => {
    const answers = [new ConnectError("away", Code.Unavailable), overloaded("MAX_LABELS")];
    let calls = 0;
    const call = attempt(() => Promise.reject(answers[calls++]), retryWindow);
    await expect(call).rejects.toMatchObject({ kind: "limit", reason: "MAX_LABELS" });
    expect(calls).toBe(2);
    const hopeless = attempt(() => Promise.reject(new ConnectError("away", Code.Unavailable)), {
      ...retryWindow,
      timeoutMs: 100,
    });
    await expect(hopeless).rejects.toMatchObject({ kind: "unavailable" });
    expect(repeatable(errorOf(overloaded("QUEUE_FULL", true)))).toBe(true);
  });

  test("asks for whole milliseconds that do not grow", async () => {
    const seen: number[] = [];
    await attempt(async ({ timeoutMs }) => {
      seen.push(timeoutMs ?? 0);
      if (seen.length < 3) {
        throw new ConnectError("away", Code.Unavailable);
      }
    }, retryWindow);
    expect(seen.every(Number.isInteger)).toBe(true);
    expect(seen).toEqual([...seen].sort((a, b) => b - a));
  });

  test("is not begun, and its pause is ended, by a signal", async () => {
    const stop = new AbortController();
    const pause = sleep(60_000, stop.signal);
    stop.abort(new Error("enough"));
    await expect(pause).rejects.toMatchObject({ kind: "cancelled" });
    const call = attempt(() => Promise.resolve(1), retryWindow, { signal: stop.signal });
    await expect(call).rejects.toMatchObject({ kind: "cancelled" });
  });
});
