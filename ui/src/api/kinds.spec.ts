import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { ALL_KINDS } from "./client";

test("the page requests every kind of record, because a missing kind would be a gap", () => {
  const proto = readFileSync(
    new URL("../../../proto/pawl/v1/record.proto", import.meta.url),
    "utf8",
  );
  const kinds = [...proto.matchAll(/^ {2}(RECORD_KIND_[A-Z_]+) = (\d+);/gm)]
    .filter(([, , n]) => n !== "0")
    .map(([, name]) => name);
  expect(kinds.length).toBeGreaterThan(15);
  expect([...ALL_KINDS].sort()).toEqual(kinds.sort());
});
