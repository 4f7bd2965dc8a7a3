import { expect, test } from "vitest";
import { conversationOf, liveText } from "./conversation";
import { added } from "./run_feed";
import type { Body, Entry, Kind } from "./types";

const entries = (...records: [Kind, Body][]): Entry[] =>
  records.map(([kind, body], i) => ({
    runId: "r",
    seq: i + 1,
    prevSeq: i,
    cursor: "",
    at: "",
    cause: "",
    principal: "",
    hash: "",
    kind,
    body,
  }));
const model = { kind: "STEP_KIND_MODEL", tool: "gpt" };
const answer = (step: number, text: string): [Kind, Body] => [
  "stepResolved",
  { ...model, step, ok: true, answer: { parts: [{ text }] } },
];

test("an answer that is also the output of the turn is shown once", () => {
  const { items, closed } = conversationOf(
    entries(
      ["transition", { toState: "talk" }],
      ["inputReceived", { parts: [{ text: "Hello" }] }],
      ["stepRequested", { ...model, step: 1 }],
      answer(1, "Good day."),
      ["turnCompleted", { turnSeq: "1", output: [{ text: "Good day." }] }],
    ),
  );
  expect(items.map((i) => i.kind)).toEqual(["user", "agent"]);
  expect(closed).toBe(1);
});

test("a call keeps its decision and its answer, a further attempt drops the answer", () => {
  const call: Body = { step: 2, tool: "refund", payloadJson: "{}" };
  const records: [Kind, Body][] = [
    ["stepRequested", call],
    ["stepDecided", { step: 2, verdict: "STEP_VERDICT_APPROVED" }],
    ["stepResolved", { step: 2, error: { code: "TOOL_FAILED" } }],
  ];
  const failed = conversationOf(entries(...records)).items;
  expect(failed).toHaveLength(1);
  expect(failed[0]).toMatchObject({
    decided: { verdict: "STEP_VERDICT_APPROVED" },
    outcome: { ok: false, error: { code: "TOOL_FAILED" } },
  });
  const again = conversationOf(entries(...records, ["stepRequested", call])).items;
  expect(again[0]).not.toHaveProperty("outcome");
});

test("the live text is what is in no record", () => {
  const open = conversationOf(entries(["transition", { toState: "talk" }], answer(1, "I look. ")));
  expect(liveText(open, { turnSeq: 1, text: "I look. It is" })).toBe("It is");
  expect(liveText(open, { turnSeq: 1, text: "Anew" })).toBe("Anew");
  const closed = conversationOf(entries(["turnCompleted", { turnSeq: "1", output: [] }]));
  expect(liveText(closed, { turnSeq: 1, text: "It is there." })).toBe("");
});

test("pieces of output follow each other; a reset and a new connection begin again", () => {
  const first = added(undefined, { turnSeq: "4", text: "Go" });
  const second = added(first, { turnSeq: "4", offset: "2", text: "od" });
  expect(second).toEqual({ turnSeq: 4, text: "Good" });
  expect(added(second, { turnSeq: "4", offset: "4", text: "hm", reasoning: true })).toEqual(second);
  expect(added(second, { turnSeq: "4", text: "Good d" }).text).toBe("Good d");
  expect(added(second, { turnSeq: "4", offset: "9", text: "x", reset: true }).text).toBe("x");
  expect(added(second, { turnSeq: "6", offset: "3", text: "y" }).text).toBe("y");
});

test("a refused call says how to allow it", () => {
  const { items } = conversationOf(
    entries(["stepRejected", { tool: "refund", denial: { code: "TOOL_NOT_ALLOWED" } }]),
  );
  expect(items[0]).toMatchObject({ bad: true, text: expect.stringContaining("--allow-tool") });
});
