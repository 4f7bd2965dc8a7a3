/** The client words the refusals of gRPC itself. */

import { Code, ConnectError } from "@connectrpc/connect";
import { expect, test } from "vitest";
import { errorOf } from "./errors.js";
import { Sidecar } from "./testing.js";

test.each([
  [2 << 20, 1 << 20, "this client sends at most 1048576 (maxMessageBytes)", 1 << 20],
  [9 << 20, 64 << 20, "the sidecar accepts at most 8388608;", 8 << 20],
])("a request of %i bytes of %i", async (size, most, expected, limit) => {
  await using sidecar = await Sidecar.start();
  using client = sidecar.client({ maxMessageBytes: most });
  const error = await client.validatePack(new Uint8Array(size)).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({
    kind: "limit",
    code: "RESOURCE_EXHAUSTED",
    message: expect.stringContaining(expected),
    reason: "MESSAGE_TOO_LARGE",
    limit,
  });
  expect(String(error)).not.toMatch(/larger than|configured/);
});

test.each([
  [
    "message size 9 is larger than configured writeMaxBytes 5",
    /^request: 9 bytes, this client sends at most 5 /,
  ],
  [
    "message size 9 is larger than configured readMaxBytes 5",
    /^answer: 9 bytes, this client reads at most 5;/,
  ],
  [
    "grpc: received message larger than max (9 vs. 5)",
    /^request: 9 bytes, the sidecar accepts at most 5;/,
  ],
])("%s", (words, expected) => {
  const error = errorOf(new ConnectError(words, Code.ResourceExhausted));
  expect(error.message).toMatch(expected);
  expect(error).toMatchObject({ kind: "limit", reason: "MESSAGE_TOO_LARGE", limit: 5 });
});
