import { expect, test } from "vitest";
import type { Entry } from "../api/types";
import { bytes, dollars, kindWord, number, pretty, roundWord, span, summary } from "./format";

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

test("steps that ask models have words of their own, whatever their records say", () => {
  const entry = (kind: Entry["kind"], body: Entry["body"]) =>
    ({ kind, body: { step: 3, tool: "gpt", kind: "STEP_KIND_MODEL", ...body } }) as Entry;
  const report = (e: Entry) => `${kindWord(e)}: ${summary(e)}`;
  expect(
    report(entry("stepRequested", { key: "9.model/2", attempt: 2, requestChanged: true })),
  ).toBe("Model asked: gpt #3, round 2, attempt 2, request changed");
  expect(report(entry("stepResolved", { unknown: true, error: { code: "EXECUTION_LOST" } }))).toBe(
    "Model answer: gpt #3 EXECUTION_LOST",
  );
  expect(report(entry("stepResolved", { ok: true, answer: { calls: [{}] } }))).toBe(
    "Model answer: gpt #3 calls a tool without a name",
  );
  expect(report(entry("stepRejected", { denial: { code: "MAX_TOKENS" } }))).toBe(
    "Model refused: gpt: MAX_TOKENS",
  );
  expect(report(entry("stepCancelled", { reason: "ended" }))).toBe(
    "Model cancelled: gpt #3: ended",
  );
  expect(report({ kind: "modelUpdated", body: { step: 3, responseId: "r1" } } as Entry)).toBe(
    "Model call updated: call of a model #3: response r1",
  );
  expect(roundWord("judge")).toBe("judge");
});

test("a call that may have happened says so, and who asks", () => {
  const entry = (kind: Entry["kind"], body: Entry["body"]) =>
    ({ kind, body: { step: 3, tool: "charge", kind: "STEP_KIND_TOOL", ...body } }) as Entry;
  const error = { code: "ARTIFACT_TOO_LARGE" };
  expect(summary(entry("stepResolved", { unknown: true, error }))).toBe(
    "charge #3 ARTIFACT_TOO_LARGE, may have happened",
  );
  expect(summary(entry("stepResolved", { error }))).toBe("charge #3 ARTIFACT_TOO_LARGE");
  expect(summary(entry("stepOutcomeUnknown", { error, by: 4 }))).toBe(
    "charge #3 ARTIFACT_TOO_LARGE, #4 asks",
  );
});

test("a record of evals says how many passed, and why the others did not", () => {
  const results = [
    { id: "ok", score: 1, passed: true },
    { id: "long", explanation: "the text has 4 characters" },
    { id: "dear", error: "too large" },
  ];
  expect(summary({ kind: "evaluated", body: { results } } as Entry)).toBe(
    "1 of 3 evals passed; long 0: the text has 4 characters; dear has no score: too large",
  );
});
