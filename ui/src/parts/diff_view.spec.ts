import { expect, test } from "vitest";
import { compare } from "./diff_view";

const shown = (before: string, after: string) =>
  compare(before, after).map((l) => `${l.sign}${l.text}`);

test("changed lines stand with what is around them", () => {
  expect(shown("a\nb\nc", "a\nx\nc")).toEqual([" a", "-b", "+x", " c"]);
  expect(shown("", "a")).toEqual(["+a"]);
  expect(shown("a", "a\nb")).toEqual([" a", "+b"]);
});

test("what is far from a change is left out and counted", () => {
  const lines = Array.from({ length: 20 }, (_, i) => `line ${i}`);
  const got = shown(
    lines.join("\n"),
    [...lines.slice(0, 10), "new", ...lines.slice(10)].join("\n"),
  );
  expect(got).toEqual([
    "…7 equal lines",
    " line 7",
    " line 8",
    " line 9",
    "+new",
    " line 10",
    " line 11",
    " line 12",
    "…7 equal lines",
  ]);
});
