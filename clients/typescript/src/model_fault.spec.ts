/** The failures for errors of model endpoints, by the table that clients of all languages share. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { brokenBy, discreet, unusable } from "./model_fault.js";

const TABLE = new URL("../../../testdata/model/faults.json", import.meta.url);
const ROWS: { word: string; non_retryable: boolean }[] = JSON.parse(readFileSync(TABLE, "utf8"));

test.each(ROWS)(
  "the failure for the error word $word is the same in every language",
  ({ word, non_retryable: nonRetryable }) => {
    for (const field of ["type", "code"]) {
      const { failure } = brokenBy({ [field]: word, message: "said so" });
      expect([failure.nonRetryable ?? false, failure.error.message]).toEqual([
        nonRetryable,
        "said so",
      ]);
    }
  },
);

test.each([
  ["sk-secret", "[key]"],
  ["12345678", "[key]"],
  ["1234567", "1234567"],
  ["a", "a"],
])("the key %s is recorded as %s: a text below 8 characters is no key", (key, report) => {
  const outcome = unusable(`NO_${key}`, `what ${key} says`);
  expect(discreet(outcome, [key])).toEqual(unusable(`NO_${report}`, `what ${report} says`));
});
