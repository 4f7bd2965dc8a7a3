import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { brokenBy } from "./model_fault.js";

const TABLE = new URL("../../../testdata/model/faults.json", import.meta.url);
const ROWS: { word: string; final: boolean }[] = JSON.parse(readFileSync(TABLE, "utf8"));

test.each(ROWS)("what $word means is alike in every language", ({ word, final }) => {
  for (const field of ["type", "code"]) {
    const { failure } = brokenBy({ [field]: word, message: "said so" });
    expect([failure.final ?? false, failure.error.message]).toEqual([final, "said so"]);
  }
});
