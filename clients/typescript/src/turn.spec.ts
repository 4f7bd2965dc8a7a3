/**
 * What a turn requests from its host. The host is a fake one, because a real sidecar would need
 * too much data for these cases.
 */

import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { StepStatus } from "./gen/pawl/v1/record_pb.js";
import { GetTurnResponseSchema, StepOutcomeSchema, StepSchema } from "./gen/pawl/v1/run_pb.js";
import { PendingSteps } from "./pending_steps.js";
import { plain } from "./plain_message.js";
import { resultOf, type StepCall, Turn, type TurnHost } from "./turn.js";

const step = (number: number, given: object) => {
  return plain(StepSchema, create(StepSchema, { step: number, ...given }));
};

test("a result that had no room in the answer is asked for alone", async () => {
  const prompt: number[] = [];
  const host = {
    request: async (calls: readonly StepCall[]) => {
      prompt.push(calls.length);
      return calls.map(({ key = "" }) => {
        const omitted = calls.length > 1 && key === "2";
        const answered = create(StepOutcomeSchema, {
          step: { step: Number(key), status: StepStatus.OK, resultJson: omitted ? "" : key },
        });
        if (answered.step) {
          answered.step.bodiesOmitted = omitted;
        }
        return plain(StepOutcomeSchema, answered);
      });
    },
  } as unknown as TurnHost;
  const info = plain(GetTurnResponseSchema, create(GetTurnResponseSchema));
  const turn = new Turn(host, info, { signal: new AbortController().signal });
  const outcomes = await turn.calls(["1", "2"].map((key) => ({ tool: "add", key })));
  expect(outcomes.map((outcome) => outcome.step?.result)).toEqual([1, 2]);
  expect(prompt).toEqual([2, 1]);
});

test("two that wait for one step are both told", async () => {
  const awaited = new PendingSteps();
  const { signal } = new AbortController();
  const pending = step(1, { status: StepStatus.PENDING });
  const both = [1, 2].map(() => awaited.answer(pending, undefined, signal));
  awaited.take(step(1, { status: StepStatus.OK }));
  expect(await Promise.all(both)).toMatchObject([{ status: StepStatus.OK }, {}]);
  expect(awaited.count).toBe(0);
});

test("nobody waits for a step of work that is over", async () => {
  const awaited = new PendingSteps();
  const signal = AbortSignal.abort(new Error("over"));
  await expect(awaited.answer(step(1, {}), undefined, signal)).rejects.toThrow("over");
});

test.each([
  ["WORKER_LOST", true],
  ["BANK_TIMEOUT", true],
  ["BUSY", false],
])("a step error %s says whether the call may have run", (code, unknown) => {
  const error = { code, message: "no" };
  const failed = step(1, { status: StepStatus.ERROR, tool: "charge", error, unknown });
  const text = `tool charge: ${code}: no${unknown ? "; the call may have happened" : ""}`;
  expect(() => resultOf(failed)).toThrow(expect.objectContaining({ message: text, unknown }));
});
