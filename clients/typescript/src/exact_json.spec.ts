/** Numbers of JSON as a program sees them, and as they go out again. */

import { expect, test } from "vitest";
import { toJsonText } from "./json_text.js";
import { parseJson } from "./plain_message.js";

test.each([
  ["9007199254740993", "9007199254740993"],
  ["-9007199254740993", "-9007199254740993"],
  ["18446744073709551617", "18446744073709551617"],
  ["1152921504606846976", "1152921504606846976"],
  ["1.10", "1.1"],
  ["4.99e1", "49.9"],
  ["5e-324", "5e-324"],
])("the number %s goes out as it came", (text, out) => {
  expect(toJsonText(parseJson(`{"n":[${text}]}`), "payload")).toBe(`{"n":[${out}]}`);
});

test("a fraction is the nearest number, as docs/guides/workers.md says", () => {
  expect(parseJson("0.1234567890123456789012")).toBe(0.12345678901234568);
});
