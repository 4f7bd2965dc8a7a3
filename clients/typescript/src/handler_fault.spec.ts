/** What went wrong in a handler. */

import { expect, test } from "vitest";
import { failStep, failTurn } from "./errors.js";
import { faultOf } from "./handler_fault.js";
import { warnOf } from "./log.js";

test("what a handler throws becomes a fault within the limits of the contract", () => {
  expect(faultOf(failTurn("NO_QUOTA", "tomorrow", { retryable: false }))).toEqual({
    code: "NO_QUOTA",
    message: "tomorrow",
    trace: "",
    retryable: false,
    nonRetryable: true,
    reject: false,
    unknown: false,
  });
  const long = faultOf(Object.assign(new Error("é".repeat(9_000)), { name: "ä".repeat(500) }));
  expect(Buffer.byteLength(long.code)).toBeLessThanOrEqual(128);
  expect(Buffer.byteLength(long.message)).toBeLessThanOrEqual(16 * 1024);
  expect(Buffer.byteLength(long.trace)).toBeLessThanOrEqual(8 * 1024);
  expect(faultOf("text")).toEqual({
    code: "Error",
    message: "text",
    trace: "",
    retryable: true,
    nonRetryable: false,
    reject: false,
    unknown: false,
  });
  const refused = faultOf(failTurn("NOT_MINE", "no", { reject: true }));
  expect(refused).toMatchObject({ retryable: false, reject: true });
});

test("what may have happened is not final", () => {
  const report = failStep("BANK_TIMEOUT", "no answer", { nonRetryable: true, unknown: true });
  expect(faultOf(report)).toMatchObject({
    code: "BANK_TIMEOUT",
    nonRetryable: false,
    unknown: true,
  });
  expect(faultOf(failStep("NO", "no", { nonRetryable: true }))).toMatchObject({
    nonRetryable: true,
    unknown: false,
  });
});

test("an error that was thrown on purpose is logged with its code, without its place", () => {
  const lines: unknown[][] = [];
  const log = { info: () => undefined, warn: (...line: unknown[]) => lines.push(line) };
  warnOf(log, "step 1 (charge) of 01M8 failed:", failStep("BUSY", "try again"));
  warnOf(log, "turn 1 of 01M8 failed:", failTurn("NO_QUOTA"));
  expect(lines).toEqual([
    ["step 1 (charge) of 01M8 failed: BUSY: try again"],
    ["turn 1 of 01M8 failed: NO_QUOTA"],
  ]);
});
