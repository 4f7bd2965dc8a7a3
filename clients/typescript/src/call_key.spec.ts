import { expect, test } from "vitest";
import { callHeaders, callMeta } from "./index.js";

test("the key of a call stands where HTTP services and MCP servers look for it", () => {
  const call = { idempotencyKey: "R/7", attempt: 2 };
  expect(callHeaders(call)).toEqual({ "Idempotency-Key": "R/7" });
  expect(callMeta(call)).toEqual({ "dev.pawl/idempotency-key": "R/7" });
});
