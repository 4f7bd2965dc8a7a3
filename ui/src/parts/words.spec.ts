import { expect, test } from "vitest";
import { bytes, dollars, number, pretty, span } from "./words";

test("figures read as people write them", () => {
  expect([0, 999, 1536, 10 << 20].map(bytes)).toEqual(["0 B", "999 B", "1.5 KiB", "10 MiB"]);
  expect([0, 59_000, 61_000, 3_660_000, 90_000_000].map(span)).toEqual([
    "0 s",
    "59 s",
    "1 min 1 s",
    "1 h 1 min",
    "1 d 1 h",
  ]);
  expect(number(100_000)).toBe("100\u202f000");
  expect([1_200, 2_500_000].map(dollars)).toEqual(["$0.0012", "$2.50"]);
});

test("JSON gets line breaks, but loses no digit", () => {
  expect(pretty('{"a":1}')).toBe('{\n  "a": 1\n}');
  expect(pretty('{"n":12345678901234567890}')).toBe('{"n":12345678901234567890}');
  expect(pretty("no json")).toBe("no json");
});
