/** The rules of a normal answer, in the table that executors of all languages read. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import type { Block } from "./language_model.js";
import { normalizeAnswer } from "./normalize_answer.js";

interface Call {
  readonly id?: string;
  readonly name: string;
  readonly arguments?: string;
  readonly broken_arguments?: string;
}

interface Case {
  readonly name: string;
  readonly given: {
    readonly round: number;
    readonly known_ids: readonly string[];
    readonly texts: readonly string[];
    readonly calls: readonly Call[];
    readonly refusal: string;
  };
  readonly want: { readonly texts: readonly string[]; readonly calls: readonly Call[] } | null;
}

const table = new URL("../../../testdata/model/normal.json", import.meta.url);
const cases = JSON.parse(readFileSync(table, "utf8")) as readonly Case[];

function blocksOf({ texts, calls }: Case["given"]): Block[] {
  return [
    ...texts.map((text) => ({ type: "text", text })),
    ...calls.map(({ id, name, arguments: input = "" }) => {
      return { type: "tool-call", toolName: name, input, ...(id ? { toolCallId: id } : {}) };
    }),
  ];
}

test.each(cases.map((one) => [one.name, one] as const))("%s", (_, { given, want }) => {
  const place = { round: given.round, known: given.known_ids };
  const made = normalizeAnswer(blocksOf(given), given.refusal, place);
  const calls = made?.calls.map(({ brokenArguments, ...call }) => {
    return { ...call, ...(brokenArguments ? { broken_arguments: brokenArguments } : {}) };
  });
  expect(made ? { texts: made.texts, calls } : null).toEqual(want);
  const report = made?.blocks.filter(({ type }) => type === "tool-call");
  expect(report?.map(({ toolCallId, input }) => [toolCallId, input])).toEqual(
    made?.calls.map((call) => [call.id, call.arguments]),
  );
});

test("what a provider keeps is kept, in its place", () => {
  const thought = { type: "reasoning", text: "", providerOptions: { p: { signature: "s" } } };
  const own = { type: "tool-call", toolCallId: "s1", toolName: "search", providerExecuted: true };
  const call = { type: "tool-call", toolCallId: "", toolName: "order", input: "" };
  const empty = { type: "reasoning", text: "" };
  const made = normalizeAnswer([thought, own, empty, call], "", { round: 1, known: [] });
  expect(made?.calls).toEqual([{ id: "call_1_0", name: "order", arguments: "{}" }]);
  expect(made?.blocks).toEqual([thought, own, { ...call, toolCallId: "call_1_0", input: "{}" }]);
  expect(normalizeAnswer([thought, own], "", { round: 1, known: [] })).toBeUndefined();
});
