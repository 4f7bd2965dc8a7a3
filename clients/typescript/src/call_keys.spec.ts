/** Keys of a model's tool calls. */

import { expect, test } from "vitest";
import { CallKeys } from "./call_keys.js";

test("the same call has the same key, counted; the order of names is nothing", () => {
  const keys = new CallKeys();
  const first = keys.next("add", { a: 2, b: 3 });
  expect(keys.next("add", { b: 3, a: 2 })).toBe(first.replace(/1$/, "2"));
  expect(keys.next("add", { a: 2, b: 4 })).not.toContain(first.slice(0, -2));
  expect(keys.next("sub", { a: 2, b: 3 })).not.toContain(first.slice(0, -2));
  expect(new CallKeys().next("add", { b: 3, a: 2 })).toBe(first);
});

// The same values are those of hashlib.sha256(json.dumps([tool, arguments], sort_keys=True).
test.each([
  ["add", { a: 2, b: 3 }, "cbc550d7b8b2525e6b41d51e"],
  ["s", { z: ['ä😀\x7f\n"', null, true, 1.5], a: {} }, "c8a01c3ae77e286c7bbc0ad7"],
])("keys of %s are those of the Python client", (tool, given, digest) => {
  expect(new CallKeys().next(tool, given)).toBe(`${digest}.1`);
});
