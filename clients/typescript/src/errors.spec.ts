/** How a server's words become a PawlError. */

import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { errorOf, failTurn, PawlError } from "./errors.js";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";
import { attempt, repeatable, sleep } from "./retry.js";
import { faultOf } from "./turn.js";

function refusal(code: Code, reason: string, metadata: { [key: string]: string } = {}) {
  return new ConnectError("no", code, undefined, [
    { desc: ErrorInfoSchema, value: { reason, domain: "pawl.dev", metadata } },
    { desc: RetryInfoSchema, value: { retryDelay: { seconds: 1n, nanos: 500_000_000 } } },
    { desc: BadRequestSchema, value: { fieldViolations: [{ field: "f", description: "d" }] } },
  ]);
}

describe("the error of a refusal", () => {
  test("tells reason, field, limit, allowed values and violations", () => {
    const metadata = { field: "event", limit: "64", allowed: "No, Yes", seq: "7" };
    const error = errorOf(refusal(Code.FailedPrecondition, "UNKNOWN_EVENT", metadata));
    expect(error).toMatchObject({
      kind: "state",
      code: "FAILED_PRECONDITION",
      reason: "UNKNOWN_EVENT",
      field: "event",
      limit: 64,
      allowed: ["No", "Yes"],
      seq: 7,
      retryAfterMs: 1500,
      message: "no",
    });
    expect(error.violations).toMatchObject([{ field: "f", description: "d" }]);
    expect(PawlError.is(error, "PAUSED", "UNKNOWN_EVENT")).toBe(true);
    expect(PawlError.is(error, "PAUSED")).toBe(false);
    expect(errorOf(error)).toBe(error);
  });

  test.each(Object.values(Code).filter((code) => typeof code === "number"))(
    "has a kind for code %i",
    (code) => {
      const error = errorOf(refusal(code, "SOME_NEW_WORD"));
      expect(error.reason).toBe("SOME_NEW_WORD");
      expect(error.code).toMatch(/^[A-Z_]+$/);
      const serverFaults = [Code.Unknown, Code.Internal, Code.DataLoss, Code.Unimplemented];
      expect(error.kind === "server").toBe(serverFaults.includes(code));
    },
  );
});

test("a broken connection is told from a refusal and from a fault of the program", () => {
  const broken = Object.assign(new Error("read"), { code: "ECONNRESET" });
  const lost = new ConnectError("x", Code.Aborted, undefined, undefined, broken);
  expect(errorOf(lost).kind).toBe("unavailable");
  const cut = new ConnectError("protocol error: missing status", Code.Internal);
  expect(errorOf(cut).kind).toBe("unavailable");
  const stop = new AbortController();
  stop.abort();
  const mine = new ConnectError("http/2 stream closed", Code.Canceled);
  expect(errorOf(mine, stop.signal).kind).toBe("cancelled");
  expect(errorOf(refusal(Code.Internal, "INTERNAL")).kind).toBe("server");
  expect(errorOf(new TypeError("bug")).kind).toBe("server");
  expect(errorOf(new ConnectError("HTTP 400", Code.Internal)).kind).toBe("server");
});

describe("a call", () => {
  const patience = { timeoutMs: 5_000, retryForMs: 2_000 };

  test("is repeated while that may help, and no longer", async () => {
    const answers = [
      new ConnectError("away", Code.Unavailable),
      refusal(Code.ResourceExhausted, "MAX_LABELS"),
    ];
    let calls = 0;
    const call = attempt(() => Promise.reject(answers[calls++]), patience);
    await expect(call).rejects.toMatchObject({ kind: "limit", reason: "MAX_LABELS" });
    expect(calls).toBe(2);
    const hopeless = attempt(() => Promise.reject(new ConnectError("away", Code.Unavailable)), {
      timeoutMs: 100,
      retryForMs: 2_000,
    });
    await expect(hopeless).rejects.toMatchObject({ kind: "unavailable" });
    expect(repeatable(errorOf(refusal(Code.ResourceExhausted, "QUEUE_FULL")))).toBe(true);
  });

  test("asks for whole milliseconds that do not grow", async () => {
    const seen: number[] = [];
    await attempt(async ({ timeoutMs }) => {
      seen.push(timeoutMs ?? 0);
      if (seen.length < 3) {
        throw new ConnectError("away", Code.Unavailable);
      }
    }, patience);
    expect(seen.every(Number.isInteger)).toBe(true);
    expect(seen).toEqual([...seen].sort((a, b) => b - a));
  });

  test("is not begun, and its pause is ended, by a signal", async () => {
    const stop = new AbortController();
    const pause = sleep(60_000, stop.signal);
    stop.abort(new Error("enough"));
    await expect(pause).rejects.toMatchObject({ kind: "cancelled" });
    const call = attempt(() => Promise.resolve(1), patience, { signal: stop.signal });
    await expect(call).rejects.toMatchObject({ kind: "cancelled" });
  });
});

test("what a handler throws becomes a fault within the limits of the contract", () => {
  expect(faultOf(failTurn("NO_QUOTA", "tomorrow", { retryable: false }))).toEqual({
    code: "NO_QUOTA",
    message: "tomorrow",
    retryable: false,
  });
  const long = faultOf(Object.assign(new Error("é".repeat(9_000)), { name: "ä".repeat(500) }));
  expect(Buffer.byteLength(long.code)).toBeLessThanOrEqual(128);
  expect(Buffer.byteLength(long.message)).toBeLessThanOrEqual(16 * 1024);
  expect(faultOf("text")).toEqual({ code: "Error", message: "text", retryable: true });
});
