/** How a server's words become a PawlError. */

import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";
import { errorOf, PawlError } from "./errors.js";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";

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
