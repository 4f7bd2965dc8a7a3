/** What the loop of a model does after the sidecar was away. */

import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { StepStatus } from "./gen/pawl/v1/record_pb.js";
import {
  AnswerModelResponseSchema,
  Disposition,
  GetTurnResponseSchema,
  RequestModelResponseSchema,
} from "./gen/pawl/v1/run_pb.js";
import type { LanguageModel, StreamPart } from "./language_model.js";
import { modelHandler } from "./model_handler.js";
import type { ModelReport } from "./model_step.js";
import { plain } from "./plain_message.js";
import { Turn, type TurnHost } from "./turn.js";

/** A model whose first `failures` requests fail as unavailable. */
class Scripted implements LanguageModel {
  readonly specificationVersion = "v4";
  readonly provider = "scripted";
  readonly modelId = "m";
  requests = 0;

  constructor(private failures: number) {}

  async doStream() {
    this.requests += 1;
    this.failures -= 1;
    if (this.failures >= 0) {
      throw Object.assign(new Error("away"), { statusCode: 503 });
    }
    const parts: StreamPart[] = [
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: "Hello." },
      { type: "finish", finishReason: { unified: "stop" } },
    ];
    return { stream: new Blob([]).stream().pipeThrough(emitting(parts)) };
  }
}

function emitting(parts: readonly StreamPart[]): TransformStream<unknown, StreamPart> {
  return new TransformStream({
    flush: (controller) => {
      for (const part of parts) {
        controller.enqueue(part);
      }
    },
  });
}

/** A host that ignores the first report of an answer, as if another execution had the turn. */
function restarted(report: ModelReport[], recorded: boolean): TurnHost {
  let requests = 0;
  return {
    output: async () => undefined,
    requestModel: async () => {
      requests += 1;
      const answer = { content: { case: "text" as const, value: "Recorded." } };
      const known = { status: StepStatus.OK, model: { answer: { parts: [answer] } } };
      const open = { status: StepStatus.PENDING, attempt: requests };
      const step = { step: 1, ...(recorded && requests > 1 ? known : open) };
      const made = create(RequestModelResponseSchema, { step, maxAnswerBytes: 1000n });
      return plain(RequestModelResponseSchema, made);
    },
    answerModel: async (given: ModelReport) => {
      report.push(given);
      const disposition = report.length > 1 ? Disposition.ACCEPTED : Disposition.IGNORED_STALE;
      const made = create(AnswerModelResponseSchema, { disposition });
      return plain(AnswerModelResponseSchema, made);
    },
  } as unknown as TurnHost;
}

test.each([
  ["a failure", 1, false, "Hello.", [1, 2], 2],
  ["an answer", 0, false, "Hello.", [1, 2], 1],
  ["an answer, when there is one by now", 0, true, "Recorded.", [1], 1],
])(
  "%s is told to a sidecar that was restarted",
  async (_, failures, recorded, text, attempts, calls) => {
    const report: ModelReport[] = [];
    const model = new Scripted(failures);
    const info = plain(GetTurnResponseSchema, create(GetTurnResponseSchema, { terminal: true }));
    const wanted = { signal: new AbortController().signal };
    const turn = new Turn(restarted(report, recorded), info, wanted);
    expect(await modelHandler(model)(turn)).toMatchObject({ output: text });
    expect(report.map(({ attempt }) => attempt)).toEqual(attempts);
    expect(model.requests).toBe(calls);
  },
);
